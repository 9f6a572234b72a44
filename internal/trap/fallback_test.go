package trap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"golang.org/x/sys/unix"
)

// TestFallbackInHand: calls that a process received and did not answer do not hang when that
// process is gone, nor does one that another call has replaced in the page.
func TestFallbackInHand(t *testing.T) {
	for _, tt := range []struct {
		name     string
		received int  // calls taken, the last of which is not answered
		noted    bool // the last one is in the page
	}{
		{"nothing received", 0, false},
		{"first in hand", 1, true},
		{"in hand", 5, true},
		{"replaced", 5, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, file, err := inflight.New()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			defer page.Unmap()
			p := start(t, options{idle: true}, "/bin/cat", "/etc/hostname")
			slot, l := page.Slot(), notify.Listener(p.listener.Fd())
			for i := range tt.received {
				n := nextCall(t, page, slot, l)
				if i < tt.received-1 {
					l.Continue(n.ID)
				} else if !tt.noted {
					page.Inherit(slot, &notify.Call{ID: n.ID - 1})
				}
			}
			if err := fallback.Serve(p.listener, file, p.fds, flushQueues); err != nil {
				t.Error(err)
			}
			want, _ := os.ReadFile("/etc/hostname")
			if err := p.cmd.Wait(); err != nil || p.out.String() != string(want) {
				t.Errorf("%v: %q %s", err, p.out.String(), p.err.String())
			}
		})
	}
}

// nextCall receives the next call of the program.
func nextCall(t *testing.T, page *inflight.Page, slot *inflight.Slot, l notify.Listener) (n notify.Call) {
	t.Helper()
	for {
		switch errno := page.Receive(slot, l, &n); errno {
		case 0:
			return n
		case unix.EINTR, unix.ENOENT: // until a call is received, a signal takes it back
		default:
			t.Fatal(errno)
		}
	}
}

// pageFD is where serveHost has the file of its page.
const pageFD = 20

// serveProgram serves the listener that it is given, until it is killed.
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
	page, file, err := inflight.New()
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(file.Fd()), pageFD, 0); err != nil {
		return err
	}
	s, err := NewSession(os.NewFile(3, "listener"), ServeConfig{
		Host: host, FDs: fds, DoorbellSize: doorbellSize, Calls: page, Doorbells: doorbells,
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
	return orphanedWith(t, server, o, doorbells, func(_ *underTrap, calls *os.File) *os.File { return calls }, argv...)
}

// orphanedWith does so, and has a function between the death and the keeper's work. It gets the
// file of the calls in hand, and returns the one for the keeper.
func orphanedWith(t *testing.T, server string, o options, doorbells doorbell.Mode, between func(*underTrap, *os.File) *os.File, argv ...string) string {
	t.Helper()
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
	daemon.ExtraFiles = []*os.File{p.listener}
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, err := r.Read(buf)
	if err != nil || string(buf[:n]) != "open\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	calls, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", daemon.Process.Pid, pageFD))
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	_ = daemon.Process.Kill()
	_ = daemon.Wait()
	if err := fallback.Serve(p.listener, between(p, calls), p.fds, flushQueues); err != nil {
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
		if got := orphaned(t, "serve", options{program: "until"}, doorbell.Auto); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFallbackReceived: the process that serves is killed when it has received a call, and before
// it does anything with it. Each kind of file gets its error, and the program's own file none.
func TestFallbackReceived(t *testing.T) {
	for _, tt := range []struct {
		kind, server string
		nr           int32
		want         error
	}{
		{"write", "serve", unix.SYS_WRITE, unix.ENODEV},
		{"ioctl", "serve", unix.SYS_IOCTL, unix.ENODEV},
		{"event", "serveQueue", unix.SYS_WRITE, unix.ENODEV},
		{"read", "serveQueue", unix.SYS_READ, unix.ENODEV},
		{"netlink", "serve", unix.SYS_SOCKET, inflight.NoNetlink},
		{"own", "serveQueue", unix.SYS_READ, nil},
		{"path", "serve", unix.SYS_OPENAT, unix.ENOENT},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			left := func(p *underTrap, calls *os.File) *os.File { return leftReceived(t, p, calls, tt.nr) }
			got := orphanedWith(t, tt.server, options{program: "calls-until"}, doorbell.Auto, left, tt.kind)
			if want := fmt.Sprintln(tt.want); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// leftReceived takes the place of the process that served the program, with a page of its own. It
// receives calls until the program makes the one with that number, which it leaves.
func leftReceived(t *testing.T, p *underTrap, calls *os.File, nr int32) *os.File {
	t.Helper()
	l := notify.Listener(p.listener.Fd())
	before, err := inflight.Open(calls)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Unmap()
	for _, n := range before.InHand() {
		switch {
		case !l.Valid(n.ID):
		case n.NR == nr:
			return calls // that process did so itself
		default:
			l.Send(&notify.Answer{ID: n.ID})
		}
	}
	page, file, err := inflight.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		page.Unmap()
		file.Close()
	})
	dir := fmt.Sprintf("/proc/%d/fd/", p.cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Stat(dir+e.Name(), &st) == nil && slices.Contains(before.Pollable(), inflight.Link(&st)) {
			page.AddPollable(&st)
		}
	}
	for slot := page.Slot(); ; {
		n := nextCall(t, page, slot, l)
		if n.NR == nr {
			return file
		}
		l.Send(&notify.Answer{ID: n.ID})
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
