package trap

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/trap/mono"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"golang.org/x/sys/unix"
)

// Doorbells says which doorbells, the one system call of a post_send, are trapped.
//
// A trapped one is answered when its work was done or handed over: its errno is
// rdma_rxe's, and the program's processor is free for the work meanwhile. One that is
// not trapped costs the program no more than a short write, several of them are
// answered together, and it always succeeds.
type Doorbells uint8

const (
	// DoorbellsAuto traps those of one process of a session, unless that is slow.
	DoorbellsAuto Doorbells = iota
	// DoorbellsTrapped traps them all.
	DoorbellsTrapped
	// DoorbellsDirect traps those only that cannot be told from other calls.
	DoorbellsDirect
)

var doorbellNames = [...]string{DoorbellsAuto: "auto", DoorbellsTrapped: "trapped", DoorbellsDirect: "direct"}

// UnmarshalText implements encoding.TextUnmarshaler: auto, trapped or direct.
func (d *Doorbells) UnmarshalText(text []byte) error {
	for i, name := range doorbellNames {
		if name == string(text) {
			*d = Doorbells(i)
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", text, strings.Join(doorbellNames[:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (d Doorbells) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String is the name that UnmarshalText takes.
func (d Doorbells) String() string {
	if int(d) < len(doorbellNames) {
		return doorbellNames[d]
	}
	return strconv.Itoa(int(d))
}

// direct tells whether the doorbells of a device that the process opens are left to
// the kernel.
//
// To the filter a doorbell is a write of 32 bytes, which a few other commands are
// too. libibverbs sends these through ioctl since version 22, and asks for
// NETLINK_RDMA since version 24: of a process that has not asked, every write is
// trapped. So it is under a limit of file sizes, which such a write would meet.
func (s *Session) direct(p *process) bool {
	switch {
	case s.cfg.Doorbells == DoorbellsTrapped, !p.modern.Load():
		return false
	case s.cfg.Doorbells == DoorbellsAuto && !s.slow() && !s.shared(p):
		return false
	default:
		return !fileSizeLimited(p.tgid)
	}
}

// trapsSlowly tells whether a trapped call costs more than a wake-up that nobody waits
// for.
func (s *Session) trapsSlowly() bool {
	return !s.sync && s.cpus > 1 || s.pace.slow()
}

// shared reports whether another process of the session has a device with trapped
// doorbells open. Of two programs that poll only one can have these. The thread that
// answers both would wake each on its own processor (SYNC_WAKE_UP), or wait there
// until a program that polls gives it up.
func (s *Session) shared(p *process) bool {
	return s.cpus > 1 && s.objects.trapsFor(func(opener int) bool { return opener != p.tgid })
}

// fileSizeLimited tells whether a process has an RLIMIT_FSIZE, or may have one.
func fileSizeLimited(pid int) bool {
	f, err := os.Open(procfs.Path(pid, "limits"))
	if err != nil {
		return true
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Max file size"); ok {
			return !strings.HasPrefix(strings.TrimSpace(rest), "unlimited")
		}
	}
	return true
}

// noNetlink is how a kernel without NETLINK_RDMA refuses a socket.
const noNetlink = unix.EPROTONOSUPPORT

func (r *receiver) netlink() verdict {
	if p, err := r.caller.owner(); err == nil {
		p.modern.Store(true)
	}
	return fail(noNetlink)
}

// pace is how long trapped calls take: the shortest time between the answer to a
// thread and its next call. What the program does between the two is in it, but among
// the calls that come before a device is opened some follow each other at once. It is
// measured until then, or until it is known not to be slow. A receiver that was blocked,
// and is not alone for a moment, makes it a little wrong.
type pace struct {
	settled atomic.Bool // it is no longer measured
	least   atomic.Int64
	calls   atomic.Int32
	last    atomic.Uint32 // the thread that was answered, 0 if that is not known
	at      atomic.Int64  // when
}

const (
	// slowCall is several times the time of a trapped call where processes are
	// switched fast, and a fraction of its time where an emulator switches them.
	slowCall = 30 * time.Microsecond
	// paceCalls are enough to have been undisturbed now and then. The loader and
	// libibverbs make more of them.
	paceCalls = 16
)

// received notes a call of a thread.
func (p *pace) received(tid uint32) {
	if p.settled.Load() || tid != p.last.Load() {
		return
	}
	gap := mono.Now() - p.at.Load()
	if least := p.least.Load(); least == 0 || gap < least {
		p.least.Store(gap)
	}
	if p.calls.Add(1) >= paceCalls && p.least.Load() <= int64(slowCall) {
		p.settled.Store(true) // it will not be more
	}
}

// answers notes that the thread's call is about to be answered. The thread may then get the
// processor at once. This thread gets it back when that one makes its next call.
func (p *pace) answers(tid uint32, v verdict) {
	switch {
	case p.settled.Load():
	case v.kind == sent: // some time ago
		p.last.Store(0)
	default:
		p.last.Store(tid)
		p.at.Store(mono.Now())
	}
}

// slow reports whether trapped calls are slow. From then on they are not measured.
func (p *pace) slow() bool {
	p.settled.Store(true)
	return p.calls.Load() >= paceCalls && p.least.Load() > int64(slowCall)
}
