package trap

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/trap/threads"
)

// A process is one program in one address space, from its first call that is of
// interest to its end or its next exec. Processes that only open other files
// never become one.
type process struct {
	tgid   int
	pidfd  int
	exit   *threads.Source // waits for its end; nil if it is not known
	space  *procmem.Space
	image  string // tells the program from one that replaces it
	since  time.Time
	execs  atomic.Bool // it has tried to exec
	modern atomic.Bool // it has asked for NETLINK_RDMA

	lastPolled atomic.Uint32 // where to look for a number for a pollable file
	lastOver   atomic.Uint32 // and in the upper range
	lastOwn    atomic.Uint32 // and for a completion channel
	placed     placed
	spares     spares
	budget     *quota.Budget
}

// processes are a session's.
type processes struct {
	s     *Session
	epoch atomic.Uint64 // of what receivers remember

	mu      sync.Mutex
	byTGID  map[int]*process
	threads map[uint32]threadEntry
	sweepAt int // number of threads at which to forget ended ones
	closed  bool
}

// threadEntry is the process of a thread, for a moment: numbers are reused.
type threadEntry struct {
	process *process
	until   int64
	checked int64 // when the process last had this thread
}

func (t *processes) init(s *Session) {
	t.s = s
	t.byTGID, t.threads, t.sweepAt = make(map[int]*process), make(map[uint32]threadEntry), fewThreads
}

// forget ends what receivers remember of descriptors.
func (t *processes) forget() { t.epoch.Add(1) }

// of returns the process that the caller of the call in hand belongs to.
func (t *processes) of(r *receiver) (*process, error) {
	if p := t.ofThread(r.n.TID, clock.Now()); p != nil {
		return p, nil
	}
	st, err := procfs.ReadStatus(r.thread())
	if err != nil {
		return nil, err
	}
	p := t.leader(st.TGID)
	if p == nil || !p.same(r.thread()) {
		if p, err = t.open(r, p, st); err != nil {
			return nil, err
		}
	}
	t.remember(r.n.TID, p, clock.Now())
	return p, nil
}

// ofThread returns the process that the thread had a moment ago, nil if it may have another
// now.
func (t *processes) ofThread(tid uint32, now int64) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.threads[tid]
	if !ok || e.process.execs.Load() || now >= e.until {
		return nil
	}
	if now-e.checked >= procmem.NumberLife {
		if !e.process.has(int(tid)) {
			delete(t.threads, tid)
			return nil
		}
		e.checked = now
		t.threads[tid] = e
	}
	return e.process
}

// has reports whether a thread is one of this process, whose pidfd is open.
func (p *process) has(tid int) bool {
	return !p.gone() && (tid == p.tgid || unix.Tgkill(p.tgid, tid, 0) != unix.ESRCH)
}

// gone reports whether the process has ended, so that its number may be another's.
func (p *process) gone() bool { return p.goneWithin(0) }

// goneWithin waits for the end for d at most. A signal may end the wait.
func (p *process) goneWithin(d time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, _ := unix.Poll(poll, int(d.Milliseconds()))
	return n > 0
}

// remember notes the process of a thread. Threads end without a word, and a
// program may have ever new ones.
func (t *processes) remember(tid uint32, p *process, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.threads) >= t.sweepAt {
		maps.DeleteFunc(t.threads, func(_ uint32, e threadEntry) bool { return now >= e.until })
		t.sweepAt = max(2*len(t.threads), fewThreads)
	}
	t.threads[tid] = threadEntry{p, now + hotLife, now}
}

// same tells whether the process is still the program that it was, in spite of a
// call of exec: that may have failed. The old memory may live on in a process
// that shares it (vfork), so the image is compared as well.
func (p *process) same(tid int) bool {
	if !p.space.Alive() {
		return false
	}
	return !p.execs.Load() || p.image == procfs.Image(tid)
}

// open makes the process of the caller, in the place of old, if that is not nil.
func (t *processes) open(r *receiver, old *process, st procfs.Status) (*process, error) {
	budget := t.s.cfg.Budget
	if err := budget.Take(processCost); err != nil {
		return nil, err
	}
	pidfd, err := unix.PidfdOpen(st.TGID, 0)
	if err != nil {
		budget.Give(processCost)
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	mem, err := r.openMem(pidfd)
	if err != nil {
		unix.Close(pidfd)
		budget.Give(processCost)
		return nil, err
	}
	p := &process{
		tgid: st.TGID, pidfd: pidfd, since: time.Now(),
		space: procmem.New(mem, st.TGID, &r.s.cfg.User.accesses), image: procfs.Image(r.thread()), budget: budget,
	}
	if !procmem.ByNumber(st.UID, st.Permitted) {
		p.space.MemOnly()
	}
	// All of this was read under a number. It is the caller's if the caller was
	// there all the time.
	if !r.s.listener.Valid(r.n.ID) {
		p.close()
		return nil, unix.ESRCH
	}
	if err := t.enter(p, old); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// enter makes p known. After an error it is as unknown as before.
func (t *processes) enter(p, old *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return unix.ENODEV
	}
	if old != nil {
		t.remove(old)
	}
	// Somebody may have been as fast (a spare receiver, another thread's call).
	if other := t.byTGID[p.tgid]; other != nil {
		t.remove(other)
	}
	if err := t.s.house.watchExit(p); err != nil {
		return err
	}
	t.byTGID[p.tgid] = p
	return nil
}

// remove drops a process; t.mu is held.
func (t *processes) remove(p *process) {
	if t.byTGID[p.tgid] != p {
		return
	}
	delete(t.byTGID, p.tgid)
	for tid, e := range t.threads {
		if e.process == p {
			delete(t.threads, tid)
		}
	}
	t.forget()
	t.mourn(p)
	p.close()
}

// mourn tells the host if the process has ended, and not only become another program.
func (t *processes) mourn(p *process) {
	m, ok := t.s.cfg.Host.(Mourner)
	if !ok || !p.gone() {
		return
	}
	if status, ok := procfs.EndOf(p.tgid, p.pidfd); ok {
		m.ProcessEnded(p.tgid, &status)
	} else {
		m.ProcessEnded(p.tgid, nil)
	}
}

func (p *process) close() {
	if p.exit != nil {
		p.exit.Remove()
	}
	unix.Close(p.pidfd)
	p.space.Release()
	p.budget.Give(processCost)
}

// ended forgets a process that has ended, unless another has its place.
func (t *processes) ended(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(p)
}

// goneNow returns the processes that have ended.
func (t *processes) goneNow() (gone []*process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byTGID {
		if p.gone() {
			gone = append(gone, p)
		}
	}
	return gone
}

// any tells whether there are processes at all.
func (t *processes) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byTGID) > 0
}

// exec notes that a process is about to become another program, or to fail to.
func (t *processes) exec(p *process) {
	p.execs.Store(true)
	t.forget()
}

// leader returns the known process with that number. One that has ended is not known any more,
// even if nobody has noticed yet: its number may be another's.
func (t *processes) leader(tgid int) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byTGID[tgid]
	if p != nil && p.gone() {
		t.remove(p)
		return nil
	}
	return p
}

// awaitEnds waits until all processes have ended, for limit at most. The listener of processes that
// exit hangs up before their pidfds say so (kernel/exit.c: do_exit releases the filter first).
func (t *processes) awaitEnds(limit time.Duration) {
	t.mu.Lock()
	known := slices.Collect(maps.Values(t.byTGID))
	t.mu.Unlock()
	deadline := time.Now().Add(limit)
	for _, p := range known {
		for left := limit; left > 0 && !p.goneWithin(left); left = time.Until(deadline) {
		}
	}
}

func (t *processes) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, p := range t.byTGID {
		t.remove(p)
	}
}

func (t *processes) status() []ProcessStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]ProcessStatus, 0, len(t.byTGID))
	for _, p := range t.byTGID {
		comm, _ := os.ReadFile(procfs.Path(p.tgid, "comm")) // empty when it just ended
		st, err := procfs.ReadStatus(p.tgid)
		if err != nil {
			continue // it has just ended
		}
		list = append(list, ProcessStatus{
			PID: p.tgid, Command: strings.TrimSpace(string(comm)), UID: st.UID, Since: p.since,
		})
	}
	return list
}
