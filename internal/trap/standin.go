package trap

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/notify"
)

// A pipe stands in for the file of a device with direct doorbells (package doorbell) while no thread of the program is about
// to map a queue. librxe maps a queue right after the call that makes it, without a trapped call in between. So a thread
// that has made a queue may be about to map it until its next call on the device.

// standIn is what is known of the pipe of one device.
type standIn struct {
	mu      sync.Mutex          // comes before Watch.mu
	mapping map[uint32]struct{} // threads that may be about to map a queue
	in      bool                // the pipe is at fd of the process that opened the device, unless that was closed
	fd      int32
	never   bool
	paid    bool             // the budget has given standInCost
	link    string           // what /proc/PID/fd shows of the pipe
	record  *inflight.Record // where the keeper finds it
}

// queuesMade returns how many queues the program was told to map, and whether it can ring.
func (o *object) queuesMade() (n uint64, send bool) {
	return o.file.(kernel.DoorbellFile).QueuesMade()
}

// chooseFile puts the file or the pipe at the descriptor of the call in hand, whichever the program needs next. The call has been
// made, and the program has no answer yet. before is how many queues there were before.
func (r *receiver) chooseFile(o *object, before uint64) {
	s := &o.standIn
	s.mu.Lock()
	defer s.mu.Unlock()
	now, send := o.queuesMade()
	if now != before {
		r.putFile(o)
		return
	}
	if r.Replaced() || s.never { // the thread may have an answer, and have made another queue since
		return
	}
	delete(s.mapping, r.n.TID)
	s.forgetOne()
	there := s.in && o.direct.HasPipe()
	if send && len(s.mapping) == 0 && !there {
		r.putPipe(o)
	}
}

// forgetOne forgets one of the threads that may be about to map a queue, if that has ended.
func (s *standIn) forgetOne() {
	for tid := range s.mapping {
		if err := unix.Access(procfs.Path(int(tid), "fd"), unix.F_OK); err == unix.ENOENT {
			delete(s.mapping, tid)
		}
		return
	}
}

// mayMap notes that the thread of the call in hand is about to map a queue.
func (s *standIn) mayMap(tid uint32) {
	switch {
	case s.never:
	case len(s.mapping) == maxMapping:
		s.never, s.mapping = true, nil
	case s.mapping == nil:
		s.mapping = make(map[uint32]struct{})
		fallthrough
	default:
		s.mapping[tid] = struct{}{}
	}
}

// putFile puts the device's file at the descriptor of the call in hand: its thread is about to map a queue.
func (r *receiver) putFile(o *object) {
	s := &o.standIn
	s.mayMap(r.n.TID)
	fd, err := o.direct.File()
	if err != nil {
		return // the pipe does not stand in
	}
	defer unix.Close(fd)
	switch errno := r.replace(fd); errno {
	case 0:
		s.in = s.in && s.fd != r.fd(0)
	case unix.ENOENT, unix.ESRCH: // the caller is gone
	default:
		r.s.log.Warn("the program cannot map a queue, because it has lowered its limit of open files (RLIMIT_NOFILE, ulimit -n) "+
			"below where devices are kept: lower it before gorxe run instead", "error", errno)
	}
}

// putPipe puts a pipe there, if the process has opened the device. Other processes, which have forked, keep the file. So does a
// program that does not want the descriptor closed by exec, or has changed its flags.
func (r *receiver) putPipe(o *object) {
	s := &o.standIn
	owner, err := r.caller.owner()
	if err != nil || owner.tgid != o.direct.Process() || !r.s.cfg.FDs.Doorbells().Contains(uint32(r.fd(0))) {
		return
	}
	if !s.paid && r.s.cfg.Budget.TakeNow(standInCost) != nil {
		s.never = true
		return
	}
	s.paid = true
	if !closedByExec(owner.tgid, int(r.fd(0))) {
		s.never = true
		return
	}
	file, err := o.fileOf(owner.pidfd, int(r.fd(0)))
	if err != nil {
		s.never = true
		return
	}
	fd, err := o.direct.StandIn(file)
	if err != nil {
		s.never = !errors.Is(err, doorbell.ErrPipeTaken)
		return
	}
	defer unix.Close(fd)
	if !r.s.know(o, fd) {
		s.never = true
		return
	}
	switch r.replace(fd) {
	case 0:
		s.in, s.fd = true, r.fd(0)
	case unix.ENOENT, unix.ESRCH: // the caller is gone
	default:
		s.never = true
	}
}

// fileOf returns a descriptor of the description of the device's file that a process has at fd. Another file may be there, so it asks
// for the file's name first: the server of a file system may never answer a stat.
func (o *object) fileOf(pidfd, fd int) (int, error) {
	theirs, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	link, err := procfs.Readlink(procfs.SelfFD(theirs))
	if err == nil && !strings.HasPrefix(link, inflight.MemfdPrefix) {
		err = unix.EBADF
	}
	if err == nil {
		err = unix.Fstat(theirs, &st)
	}
	if err == nil && fdid.FromStat(&st) != o.id {
		err = unix.EBADF
	}
	if err != nil {
		unix.Close(theirs)
		return -1, err
	}
	return theirs, nil
}

// closedByExec reports whether a descriptor of a process has FD_CLOEXEC, and not O_NONBLOCK.
func closedByExec(pid, fd int) bool {
	info, err := os.ReadFile(procfs.Path(pid, "fdinfo/"+strconv.Itoa(fd)))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(info), "flags:")
	line, _, _ := strings.Cut(rest, "\n")
	flags, err := strconv.ParseUint(strings.TrimSpace(line), 8, 64)
	return err == nil && flags&unix.O_CLOEXEC != 0 && flags&unix.O_NONBLOCK == 0
}

// replace puts a file in the place of the descriptor of the call in hand.
func (r *receiver) replace(fd int) unix.Errno {
	a := notify.Install{ID: r.n.ID, Source: uint32(fd), FD: uint32(r.fd(0)), Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, Mode: unix.O_CLOEXEC}
	_, errno := r.s.listener.Install(&a)
	return errno
}

// know makes calls on the pipe, of which fd is a descriptor, calls on the object. False means that the session can know no more files.
func (s *Session) know(o *object, fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	link := inflight.Link(&st)
	if link == o.standIn.link {
		return true
	}
	if o.standIn.record != nil { // of the pipe before
		o.standIn.record.Free()
	}
	if o.standIn.record = s.page.AddPollable(&st); o.standIn.record == nil {
		return false
	}
	s.objects.standIn(o, link)
	return true
}

// end is called when the object is closed. The keeper finds the pipe of a session that stops.
func (s *standIn) end(b *quota.Budget, stopping bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.never = true
	if s.record != nil && !stopping {
		s.record.Free()
	}
	if s.paid {
		b.Give(standInCost)
	}
}
