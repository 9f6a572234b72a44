package interpose

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A process is one program in one address space, from its first call that is of
// interest to its end or its next exec. Processes that only open other files
// never become one.
type process struct {
	tgid     int
	pidfd    int
	uid, gid uint32
	space    *space
	stamp    string // tells the program from one that replaces it
	since    time.Time
	execs    atomic.Bool // it has tried to exec
}

// processes are a session's.
type processes struct {
	s     *Session
	epoch atomic.Uint64 // of what receivers remember

	mu      sync.Mutex
	byTGID  map[int]*process
	threads map[uint32]threadEntry
	closed  bool
}

// threadEntry is the process of a thread, for a moment: thread ids are reused.
type threadEntry struct {
	process *process
	until   int64
}

func (t *processes) init(s *Session) {
	t.s = s
	t.byTGID, t.threads = make(map[int]*process), make(map[uint32]threadEntry)
}

// forget ends what receivers remember of descriptors.
func (t *processes) forget() { t.epoch.Add(1) }

// of returns the process that the caller of the call in hand belongs to.
func (t *processes) of(r *receiver) (*process, error) {
	t.mu.Lock()
	e, ok := t.threads[r.n.pid]
	t.mu.Unlock()
	if ok && !e.process.execs.Load() && nanotime() < e.until {
		return e.process, nil
	}
	st, err := readStatus(r.thread())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	p := t.byTGID[st.tgid]
	t.mu.Unlock()
	if p == nil || !p.same(r.thread()) {
		if p, err = t.open(r, p, st); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.threads[r.n.pid] = threadEntry{p, nanotime() + hotLife}
	return p, nil
}

// same tells whether the process is still the program that it was, in spite of a
// call of exec: that may have failed. The old memory may live on in a process
// that shares it (vfork), so the stamp is compared as well.
func (p *process) same(tid int) bool {
	if !p.space.alive() {
		return false
	}
	return !p.execs.Load() || p.stamp == stamp(tid)
}

// open makes the process of the caller, in the place of old, if that is not nil.
func (t *processes) open(r *receiver, old *process, st status) (*process, error) {
	pidfd, err := unix.PidfdOpen(st.tgid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	mem, err := r.openMem(pidfd)
	if err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	p := &process{
		tgid: st.tgid, pidfd: pidfd, uid: st.uid, gid: st.gid, since: time.Now(),
		space: newSpace(mem, st.tgid, r.s.cfg.Held), stamp: stamp(r.thread()),
	}
	p.space.careful.Store(!byNumber(st.uid))
	// All of this was read under a number. It is the caller's if the caller was
	// there all the time.
	if !r.s.listener.valid(r.n.id) {
		p.close()
		return nil, unix.ESRCH
	}
	if err := t.enter(p, old); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (t *processes) enter(p, old *process) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return unix.ENODEV
	}
	if old != nil {
		t.remove(old)
	}
	// Somebody may have been as fast (a spare receiver, another thread's call).
	if other := t.byTGID[p.tgid]; other != nil {
		t.remove(other)
	}
	t.byTGID[p.tgid] = p
	t.mu.Unlock()
	return t.s.house.watchExit(p.pidfd)
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
	p.close()
}

func (p *process) close() {
	unix.Close(p.pidfd)
	p.space.release()
}

// ended is called when a pidfd is readable. The number may be a new process's
// already, so it is looked at again.
func (t *processes) ended(pidfd int) {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.byTGID {
		if p.pidfd != pidfd {
			continue
		}
		if n, err := unix.Poll(fds, 0); err == nil && n == 1 {
			t.remove(p)
		}
		return
	}
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

// leader returns the known process with that number.
func (t *processes) leader(tgid int) *process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byTGID[tgid]
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
		comm, _ := os.ReadFile(procPath(p.tgid, "comm")) // empty when it just ended
		list = append(list, ProcessStatus{
			PID: p.tgid, Command: strings.TrimSpace(string(comm)), UID: p.uid, Since: p.since,
		})
	}
	return list
}
