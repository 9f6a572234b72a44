package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCMPrograms runs the programs of testdata/cm.c: event channels under signals and
// pthread_cancel, without blocking, and in a forked child; rsockets that are never connected. 500
// channels exist with the usual limit of open files, and 200 connections at a time, or 1000.
func TestCMPrograms(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	bin := compile(t, "cm")
	d := oneDaemon(t)
	for _, name := range []string{"eintr", "restart", "cancel", "nonblock", "fork", "unused"} {
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

// TestManyRSockets: an rsockets server with many connections, each of which takes an event
// channel and a completion channel. The library is a newer one. In rdma-core
// 44 a thread of the library (cm_svc_run) hangs: from four connections on, it reads an
// array that it has freed.
func TestManyRSockets(t *testing.T) {
	if native != "" || !selection.takes(standard) {
		return
	}
	bin := compile(t, "rsockets")
	d := oneDaemon(t)
	for _, c := range []struct {
		rank               rank
		limit, connections int // of open files
	}{{standard, 1024, 100}, {complete, 1024, 500}, {complete, 4096, 500}} {
		if !selection.takes(c.rank) {
			continue
		}
		t.Run(fmt.Sprintf("%d of %d", c.connections, c.limit), func(t *testing.T) {
			run := newerLibraries(t, func(t *testing.T, argv ...string) *proc {
				script := fmt.Sprintf(`ulimit -n %d; exec "$@"`, c.limit)
				return start(t, d.host, d.env(), append([]string{"sh", "-c", script, "sh", gorxe, "run", "--"}, argv...)...)
			})
			port := d.host.nextPort()
			args := []string{d.host.addr, strconv.Itoa(port), strconv.Itoa(c.connections)}
			s := run(t, append([]string{bin, "server"}, args...)...)
			topology{daemon: d}.await(t, listensCM, s, port)
			for _, p := range []*proc{run(t, append([]string{bin, "client"}, args...)...), s} {
				if out := p.ok(); out != "ok\n" {
					t.Errorf("%s: %s", p.name, out)
				}
			}
		})
	}
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
	d.wait()
	if out := p.ok(); !strings.HasSuffix(out, "ok\n") {
		t.Errorf("%s", out)
	}
}
