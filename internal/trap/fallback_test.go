package trap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// TestFallbackInHand: calls that a process received and did not answer, noted or not, do not
// hang when that process is gone.
func TestFallbackInHand(t *testing.T) {
	for _, tt := range []struct {
		name     string
		received int  // calls taken, the last of which is not answered
		noted    bool // the last one is in the page
	}{
		{"nothing received", 0, false},
		{"first in hand", 1, true},
		{"in hand", 5, true},
		{"not noted", 5, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shared, err := inflight.New()
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			p := start(t, options{idle: true}, "/bin/cat", "/etc/hostname")
			page, err := inflight.Map(shared)
			if err != nil {
				t.Fatal(err)
			}
			defer page.Unmap()
			slot, l := page.Slot(), notify.Listener(p.listener.Fd())
			for i := range tt.received {
				var n notify.Call
				errno := l.Receive(&n)
				// Until a call is received, a signal takes it back.
				for errno == unix.EINTR || errno == unix.ENOENT {
					errno = l.Receive(&n)
				}
				if errno != 0 {
					t.Fatal(errno)
				}
				last := i == tt.received-1
				if !last || tt.noted {
					page.Take(slot, &n)
				}
				if !last {
					l.Continue(n.ID)
					slot.Release()
				}
			}
			if err := fallback.Serve(p.listener, shared, p.fds, flushQueues); err != nil {
				t.Error(err)
			}
			want, _ := os.ReadFile("/etc/hostname")
			if err := p.cmd.Wait(); err != nil || p.out.String() != string(want) {
				t.Errorf("%v: %q %s", err, p.out.String(), p.err.String())
			}
		})
	}
}

// serveProgram serves the listener and page that it is given, until it is killed.
func serveProgram(args []string) error { return serveHost(newFakes(&testing.B{}), args) }

// serveQueue does so with the file of waiting_test.go.
func serveQueue(args []string) error { return serveHost(newQueueHost(), args) }

func serveHost(host Host, args []string) error {
	var fds filter.Range
	if _, err := fmt.Sscan(strings.Join(args[:3], " "), &fds.Base, &fds.Count, &fds.Top); err != nil {
		return err
	}
	var doorbells doorbell.Mode
	if err := doorbells.UnmarshalText([]byte(args[3])); err != nil {
		return err
	}
	s, err := NewSession(os.NewFile(3, "listener"), ServeConfig{
		Host: host, FDs: fds, DoorbellSize: doorbellSize, Shared: os.NewFile(4, "page"), Doorbells: doorbells,
	})
	if err != nil {
		return err
	}
	return s.Serve(context.Background())
}

// orphaned runs a program that reports when it has opened its device. It then kills the
// process that serves the program, which is one of programs, and returns the later output.
func orphaned(t *testing.T, server string, o options, doorbells doorbell.Mode, argv ...string) string {
	t.Helper()
	shared, err := inflight.New()
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o.idle, o.stdout = true, w
	p := start(t, o, argv...)
	w.Close()
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(exe, fmt.Sprint(p.fds.Base), fmt.Sprint(p.fds.Count), fmt.Sprint(p.fds.Top), doorbells.String())
	daemon.Env = append(os.Environ(), roleEnv+"="+server)
	daemon.ExtraFiles = []*os.File{p.listener, shared}
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := r.Read(buf)
	if err != nil || string(buf[:n]) != "open\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	if err := fallback.Serve(p.listener, shared, p.fds, flushQueues); err != nil {
		t.Error(err)
	}
	n, _ = r.Read(buf)
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	return string(buf[:n])
}

// TestFallbackAfterKill: the process that serves is killed while the program is
// busy with its device. The program is told, and goes on.
func TestFallbackAfterKill(t *testing.T) {
	for range 5 {
		const want = "no such device no such device no such file or directory <nil> <nil>\n"
		// A call that was received but not yet noted continues in the kernel.
		got := strings.Replace(orphaned(t, "serve", options{program: "until"}, doorbell.Auto), unix.EPERM.Error(), unix.ENODEV.Error(), 1)
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSlots: there are more than receivers.
func TestSlots(t *testing.T) {
	if inflight.Slots < maxBlocked+2 {
		t.Errorf("%d slots for %d receivers", inflight.Slots, maxBlocked+1)
	}
}

// TestUnheardDoorbell: a write to a device that the kernel carries out, since there
// is nobody to answer it, fails.
func TestUnheardDoorbell(t *testing.T) {
	memfd, err := unix.MemfdCreate("gorxe-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memfd)
	if err := unix.Ftruncate(memfd, 1<<46); err != nil { // as package uverbs does
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	fd, err := describe(memfd, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, make([]byte, 32)); err == nil {
		t.Errorf("%d bytes were written", n)
	}
}
