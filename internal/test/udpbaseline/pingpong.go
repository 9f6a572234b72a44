package udpbaseline

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// HalfRoundTrip sends a datagram of size bytes back and forth rounds times, and
// returns half the time that one round takes.
func HalfRoundTrip(size, rounds int, a, b End) (time.Duration, error) {
	near, err := a.listen()
	if err != nil {
		return 0, err
	}
	defer func() { _ = near.Close() }()
	far, err := b.listen()
	if err != nil {
		return 0, err
	}
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		echo(far, make([]byte, size))
	}()
	defer func() {
		_ = far.Close()
		<-echoed
	}()
	peer := far.LocalAddr().(*net.UDPAddr).AddrPort()
	buf := make([]byte, size)
	// One that is lost would be waited for: neither network here loses any.
	if err := near.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, fmt.Errorf("udpbaseline: %w", err)
	}
	start := time.Now()
	for range rounds {
		if err := exchange(near, buf, peer); err != nil {
			return 0, fmt.Errorf("udpbaseline: %w", err)
		}
	}
	return time.Since(start) / time.Duration(2*rounds), nil
}

func exchange(c *net.UDPConn, buf []byte, peer netip.AddrPort) error {
	if _, err := c.WriteToUDPAddrPort(buf, peer); err != nil {
		return err
	}
	_, _, err := c.ReadFromUDPAddrPort(buf)
	return err
}

func echo(c *net.UDPConn, buf []byte) {
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.WriteToUDPAddrPort(buf[:n], from) //nolint:errcheck // the other side misses it
		}
	}
}
