package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// Notify reports the daemon's state ("READY=1") to the service manager, if it asked for that
// (sd_notify(3)).
func Notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	// Package net understands the leading @ of an abstract address.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer c.Close() //nolint:errcheck // the datagram was sent
	_, err = c.Write([]byte(state))
	return err
}

// firstInherited is SD_LISTEN_FDS_START.
const firstInherited = 3

// Inherited returns the socket that a service manager opened for the daemon
// (sd_listen_fds(3)), or nil.
func Inherited() (*net.UnixListener, error) {
	if pid, err := strconv.Atoi(os.Getenv("LISTEN_PID")); err != nil || pid != os.Getpid() {
		return nil, nil
	}
	if n := os.Getenv("LISTEN_FDS"); n != "1" {
		return nil, fmt.Errorf("the service manager passed %s sockets: the daemon takes one", n)
	}
	f := os.NewFile(firstInherited, "socket of the service manager")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("socket of the service manager: %w", err)
	}
	unixLn, ok := ln.(*net.UnixListener)
	if !ok || unixLn.Addr().Network() != "unixpacket" {
		ln.Close() //nolint:errcheck // an error follows anyway
		return nil, fmt.Errorf("the service manager passed a socket of %v: the daemon takes ListenSequentialPacket", ln.Addr().Network())
	}
	return unixLn, nil
}
