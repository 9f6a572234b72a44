package trap

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// A program whose posts are watched (ServeConfig.Paced) has a device at two numbers. At the slow
// one, which it has opened, its doorbells are trapped, and at the quick one they are direct. Both
// refer to one description. libibverbs keeps the number in struct ibv_context, and reads it for
// each call. So the daemon can change it there: while the program waits in a trapped call, or after
// some time ([0092]).
//
// A program that posts slowly has each post trapped. One that posts faster than its stops allow
// rings at the quick number, for sched.StopEvery at most, or until another call on the device. Then
// its posts are trapped again.
//
// [0092]: docs/design/0092-two-numbers-for-a-device.md

// pace is what is known of one open device of such a program.
type pace struct {
	file kernel.NumberedFile
	// changing is set while a thread uses the program's memory. Nobody waits for that: it may not
	// answer.
	changing atomic.Bool
	over     atomic.Bool // the number stays as it is
	quick    atomic.Bool // the program rings at the quick number
	// behind is set when the program got the quick number: the next trapped doorbell may be that of
	// earlier posts, too.
	behind atomic.Bool
	stops  sched.Stops

	// What the first change finds; it is written while changing is set.
	numbers [2]uint32 // slow, quick; 0: there is none
	space   *procmem.Space
	where   uint64 // of the number in the program's memory
	timer   *time.Timer
}

func newPace(file kernel.NumberedFile) *pace {
	p := &pace{file: file}
	p.timer = time.AfterFunc(time.Hour, p.slow)
	p.timer.Stop()
	return p
}

// spares are the numbers of a process at which pace.go has put a file of no use. A later device may
// have such a number.
type spares struct {
	mu   sync.Mutex // a leaf lock
	list []uint32
}

func (s *spares) put(n uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, n)
}

// take returns one for which good is true.
func (s *spares) take(good func(n uint32) bool) (n uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, good)
	if i < 0 {
		return 0, false
	}
	n = s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	return n, true
}

// drop forgets those from first to last: the program has closed them, and may have files there.
func (s *spares) drop(first, last uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(n uint32) bool { return first <= n && n <= last })
}

// paced reports whether the call in hand is a trapped doorbell of a program with two numbers.
func (r *receiver) paced(o *object) bool {
	return o.pace != nil && r.n.NR == unix.SYS_WRITE && r.arg(2) == uint64(r.s.cfg.DoorbellSize)
}

// stopped answers a trapped doorbell, and lets the program go on without being stopped if it posts
// too fast.
func (r *receiver) stopped(o *object) verdict {
	r.caller.behind = o.pace.behind.Swap(false)
	v := r.tryFile(o)
	if !o.pace.stops.Take(sched.Now()) && v.kind == answered && v.errno == 0 && r.hurry(o) {
		// not earlier: slow does nothing while the number is changing
		o.pace.timer.Reset(sched.StopEvery)
	}
	return v
}

// begin reserves the change of the number.
func (p *pace) begin() bool { return !p.over.Load() && p.changing.CompareAndSwap(false, true) }

// hurry has the program ring at the quick number, and reports whether it will. The program waits
// for the answer to its doorbell.
func (r *receiver) hurry(o *object) bool {
	p := o.pace
	if r.Replaced() || p.quick.Load() || !p.begin() {
		return false
	}
	defer p.changing.Store(false)
	owner, err := r.caller.owner()
	if err != nil || owner.tgid != o.direct.Process() {
		return false // of a forked process: its memory is another one
	}
	if p.space == nil && !r.findNumber(o, owner) {
		p.over.Store(true)
		return false
	}
	if uint32(r.fd(0)) != p.numbers[0] || owner.space != p.space {
		return false
	}
	p.quick.Store(true) // before the program can know it
	p.behind.Store(true)
	if !p.change(p.numbers[0], p.numbers[1]) {
		p.quick.Store(false)
		p.over.Store(true)
		return false
	}
	return true
}

// slow has the program's doorbells trapped again.
func (p *pace) slow() {
	if !p.quick.Load() || !p.begin() {
		return
	}
	defer p.changing.Store(false)
	if !p.quick.Load() {
		return
	}
	if !p.change(p.numbers[1], p.numbers[0]) {
		p.over.Store(true)
	}
	p.quick.Store(false)
}

// slowFork has the doorbells of a forked process trapped again. It got the quick number with the
// memory, and makes another call than a doorbell. Nobody gives it the quick number again. While the
// parent's number is changing, slowFork leaves that to the next call.
func (r *receiver) slowFork(o *object) {
	p := o.pace
	owner, err := r.caller.owner()
	if err != nil || owner.tgid == o.direct.Process() || !p.changing.CompareAndSwap(false, true) {
		return
	}
	defer p.changing.Store(false)
	if p.space != nil && uint32(r.fd(0)) == p.numbers[1] {
		p.changeIn(owner.space, p.numbers[1], p.numbers[0])
	}
}

// change writes a number in the place of another one. They differ in the lowest byte only, so no
// thread of the program reads half of each. The memory may not answer: such accesses are bounded as
// the engine's are.
func (p *pace) change(from, to uint32) bool { return p.changeIn(p.space, from, to) }

func (p *pace) changeIn(space *procmem.Space, from, to uint32) bool {
	var have [4]byte
	if space.ReadBounded(p.where, have[:]) != nil || binary.LittleEndian.Uint32(have[:]) != from {
		return false
	}
	return space.WriteBounded(p.where, []byte{byte(to)}) == nil
}

// findNumber finds out where the program keeps the number of the call in hand, and gives it the
// quick one.
func (r *receiver) findNumber(o *object, owner *process) bool {
	p, slow := o.pace, uint32(r.fd(0))
	where, ok := p.file.NumberAt(&r.caller)
	if !ok {
		return false
	}
	p.where, p.space = where, owner.space
	if !p.change(slow, slow) {
		p.space = nil
		return false
	}
	quick, ok := r.placeQuick(o, owner, slow)
	if p.numbers = [2]uint32{slow, quick}; !ok {
		p.space = nil
	}
	return ok
}

// placeQuick puts the device at a second number.
func (r *receiver) placeQuick(o *object, owner *process, slow uint32) (uint32, bool) {
	s := r.s
	s.objects.install.Lock()
	defer s.objects.install.Unlock()
	direct := s.cfg.FDs.Doorbells()
	near := func(n uint32) bool { return n^slow <= math.MaxUint8 }
	quick, ok := r.spare(owner, func(n uint32) bool { return direct.Contains(n) && near(n) })
	if !ok {
		unused := func(fd int32) bool { return near(uint32(fd)) && r.unused(fd) }
		quick, ok = r.freeFD([]filter.Range{direct}, bounds{end: noEnd}, unused)
	}
	if !ok {
		return 0, false
	}
	fd, err := o.fileOf(owner.pidfd, int(slow))
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	s.procs.forget()
	owner.placed.put(quick, o)
	if !r.place(fd, quick) {
		owner.placed.drop(quick, quick)
		return 0, false
	}
	return quick, true
}

// spare takes a spare number of the caller for which good is true. The program may have closed it,
// or put another file there, without a trapped call, as by io_uring: so spare looks.
func (r *receiver) spare(owner *process, good func(n uint32) bool) (uint32, bool) {
	for {
		n, ok := owner.spares.take(good)
		if !ok {
			return 0, false
		}
		if link, err := procfs.Readlink(r.procFD(int32(n))); err == nil && link == os.DevNull {
			return n, true
		}
	}
}

// place puts a file at a number of the caller.
func (r *receiver) place(fd int, at uint32) bool {
	a := notify.Install{ID: r.n.ID, Source: uint32(fd), FD: at, Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, Mode: unix.O_CLOEXEC}
	_, errno := r.s.listener.Install(&a)
	return errno == 0
}

// retire is called for a close, perhaps of one of a device's two numbers. The other one must not
// keep the device open. No call closes it, so it gets a file of no use, and a later device may have
// its place.
func (r *receiver) retire() {
	if !r.s.cfg.Paced || r.n.NR != unix.SYS_CLOSE {
		return
	}
	o := r.object(r.fd(0))
	if o == nil || o.pace == nil {
		return
	}
	p := o.pace
	owner, err := r.caller.owner()
	if err != nil || owner.tgid != o.direct.Process() {
		return
	}
	p.slow()
	p.over.Store(true)
	// libibverbs frees the number's memory next
	for end := clock.Now() + int64(changeLimit); p.changing.Load() && clock.Now() < end; {
		time.Sleep(changeLook)
	}
	if p.changing.Load() || p.space == nil {
		return
	}
	i := slices.Index(p.numbers[:], uint32(r.fd(0)))
	if i < 0 {
		return
	}
	other := p.numbers[1-i]
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(null)
	if r.place(null, other) {
		owner.spares.put(other)
	}
	owner.placed.drop(other, other)
}
