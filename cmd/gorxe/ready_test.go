package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestDaemonReady: a daemon that a user starts says in one line when it is ready, with which device
// and where. With a log it says so there; a user who wants warnings only gets no line.
func TestDaemonReady(t *testing.T) {
	address := fmt.Sprintf("127.63.%d.%d", os.Getpid()>>8&0xff, os.Getpid()&0xff)
	socket := filepath.Join(t.TempDir(), "s")
	for level, want := range map[string][]string{
		"":     {"gorxe: ready: rxe0 on lo (" + address + "); programs find it at " + socket},
		"info": {"msg=device name=rxe0 interface=lo addresses=[" + address + "]", "msg=ready socket=" + socket},
		"warn": nil,
	} {
		args := []string{"daemon", "--device", "rxe0=" + address, "--socket", socket}
		if level != "" {
			args = append(args, "--log-level", level)
		}
		cmd := self(t, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		client := dialWhenReady(t, socket)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%q: %v", level, err)
		}
		for _, s := range want {
			if !strings.Contains(said.String(), s) {
				t.Errorf("%q: %q is missing in:\n%s", level, s, &said)
			}
		}
		if lines := strings.Count(said.String(), "\n"); level != "info" && lines != len(want) {
			t.Errorf("%q: %d lines\n%s", level, lines, &said)
		}
	}
}

// dialWhenReady waits for a daemon.
func dialWhenReady(t *testing.T, socket string) *proto.Client {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if client, err := proto.Dial([]string{socket}); err == nil {
			if _, err := client.Status(); err != nil {
				t.Fatal(err)
			}
			return client
		}
	}
	t.Fatal("the daemon does not serve")
	return nil
}

// TestWhose: root learns that its daemon is for root, unless the socket is for others.
func TestWhose(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{0o600: " if root runs them: --socket-group GROUP lets others in", 0o660: "", 0o666: ""} {
		if got := whose(mode | fs.ModeSocket); got != want {
			t.Errorf("%v: %q", mode, got)
		}
	}
}

// TestReadyLine: many devices do not make a long line.
func TestReadyLine(t *testing.T) {
	st := &proto.Status{Socket: "/run/gorxe.sock"}
	for i := range 1000 {
		port := proto.PortStatus{Number: 1, Interface: "lo", GIDs: []proto.GIDStatus{{GID: "::ffff:10.0.0.1"}, {Index: 1, GID: "::ffff:10.0.0.1"}, {Index: 2, GID: "fe80::1"}}}
		st.Devices = append(st.Devices, proto.DeviceStatus{Name: fmt.Sprint("rxe", i), Ports: []proto.PortStatus{port}})
	}
	if line := readyLine(st); !strings.HasPrefix(line, "ready: rxe0 on lo (10.0.0.1, fe80::1), rxe1 on lo ") || !strings.HasSuffix(line, ", 992 more; programs find it at /run/gorxe.sock") {
		t.Errorf("the line is %s", line)
	}
}
