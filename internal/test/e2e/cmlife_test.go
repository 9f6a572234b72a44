package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCMPrograms runs the programs of testdata/cm.c: event channels under signals and
// pthread_cancel, without blocking, and in a forked child. 500 channels exist with the usual
// limit of open files, and 200 connections at a time, or 1000.
func TestCMPrograms(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "cm")
	d := oneDaemon(t)
	for _, name := range []string{"eintr", "restart", "cancel", "nonblock", "fork"} {
		t.Run(name, func(t *testing.T) {
			if out := d.run(t, bin, name, d.host.addr).ok(); out != "ok\n" {
				t.Errorf("%s", out)
			}
		})
	}
	connections := 200
	if full {
		connections = 1000
	}
	// Twice, so that the daemon shows what the first program has left.
	for range 2 {
		t.Run("many", func(t *testing.T) {
			if out := d.run(t, bin, "many", d.host.addr, "7000", strconv.Itoa(connections)).ok(); out != "ok\n" {
				t.Errorf("%s", out)
			}
			d.idle()
		})
	}
	t.Run("channels", func(t *testing.T) {
		script := fmt.Sprintf("ulimit -n 1024; exec %s run -- %s channels %s", gorxe, bin, d.host.addr)
		if out := start(t, d.host, d.env(), "sh", "-c", script).ok(); out != "ok\n" {
			t.Errorf("%s", out)
		}
	})
}

// TestCMKilled: the peer of a program that is killed hears of it at once, from the same
// daemon and from another one.
func TestCMKilled(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "cm")
	for _, o := range topologies(t) {
		if o.both != nil {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			port := o.host.nextPort()
			s := o.server(t, bin, "hold", o.host.addr, strconv.Itoa(port))
			o.await(t, listensCM, s, port)
			c := o.client(t, bin, "outlive", o.host.addr, strconv.Itoa(port))
			if !until(programLimit, func() bool { return c.ended() || strings.HasPrefix(c.out.String(), "connected\n") }) || c.ended() {
				t.Fatal(c.describe())
			}
			s.killTree()
			s.wait()
			if out := c.ok(); out != "connected\nok\n" {
				t.Errorf("%s", out)
			}
		})
	}
}

// TestCMOrphan: a call that waits for an event ends when the daemon is killed.
func TestCMOrphan(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "cm")
	d := oneDaemon(t)
	p := d.run(t, bin, "orphan", d.host.addr)
	if !until(programLimit, func() bool { return p.ended() || strings.HasPrefix(p.out.String(), "waiting\n") }) || p.ended() {
		t.Fatal(p.describe())
	}
	if err := d.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if out := p.ok(); !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s", out)
	}
}
