package trap

import (
	"errors"
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

// A pipe can replace the file of a device with direct doorbells (package doorbell), at the
// descriptor that the program writes them to. A pipe cannot be mapped, so the file is there while a
// thread of the program may be about to map a part of it. A thread maps between the call that told
// it to and its next call on the device (kernel.DoorbellFile). Both are trapped.

// pipeState is what the process that has opened a device has at the descriptor of doorbells.
//
//	      | fileIn | pipeIn | refused | hungUp
//	file  | file   | pipe   | never   | file
//	pipe  | file   | pipe   | never   | file
//	never | never  | never  | never   | never
//
// In the state file, a call puts the pipe there if no thread may be about to map.
type pipeState uint8

const (
	pipeFile  pipeState = iota // the file
	pipePipe                   // the pipe
	pipeNever                  // the file, or the last pipe: there will be no other one
)

// pipeEvent is what happens to it.
type pipeEvent uint8

const (
	pipeFileIn  pipeEvent = iota // the file was put in the place of the pipe
	pipePipeIn                   // the pipe was put in the place of the file
	pipeRefused                  // there can be no pipe for this device, or the device was closed
	pipeHungUp                   // the program has closed its last descriptor of the pipe
)

var pipeTable = [...][4]pipeState{
	pipeFile:  {pipeFile, pipePipe, pipeNever, pipeFile},
	pipePipe:  {pipeFile, pipePipe, pipeNever, pipeFile},
	pipeNever: {pipeNever, pipeNever, pipeNever, pipeNever},
}

// doorbellPipe is what is known of the pipe of one device.
type doorbellPipe struct {
	mu      sync.Mutex // comes before Watch.mu
	state   pipeState
	mapping map[uint32]struct{} // threads that may be about to map
	fd      int32               // where the pipe was put last
	paid    bool                // the budget has given pipeCost
	link    string              // what /proc/PID/fd shows of the pipe
	record  *inflight.Record    // where the keeper finds it
}

// on brings the pipe into its next state; p.mu is held.
func (p *doorbellPipe) on(e pipeEvent) { p.state = pipeTable[p.state][e] }

// mappings is kernel.DoorbellFile.Mappings of the device.
func (o *object) mappings() (told uint64, pipe bool) {
	return o.file.(kernel.DoorbellFile).Mappings()
}

// chooseFile puts the file or the pipe at the descriptor of the call in hand, whichever the program
// needs next. The call has been made, and the program has no answer yet. before is what mappings
// said before.
func (r *receiver) chooseFile(o *object, before uint64) {
	p := &o.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	told, fits := o.mappings()
	if told != before {
		p.mayMap(r.n.TID)
		r.putFile(o)
		return
	}
	// the thread may have an answer, and have been told since
	if r.Replaced() || p.state == pipeNever {
		return
	}
	delete(p.mapping, r.n.TID)
	p.forgetOne()
	if !o.direct.HasPipe() {
		p.on(pipeHungUp)
	}
	if fits && len(p.mapping) == 0 && p.state == pipeFile {
		r.putPipe(o)
	}
}

// forgetOne forgets one of the threads that may be about to map, if that has ended.
func (p *doorbellPipe) forgetOne() {
	for tid := range p.mapping {
		if err := unix.Access(procfs.Path(int(tid), "fd"), unix.F_OK); err == unix.ENOENT {
			delete(p.mapping, tid)
		}
		return
	}
}

// mayMap notes that a thread is about to map.
func (p *doorbellPipe) mayMap(tid uint32) {
	switch {
	case p.state == pipeNever:
	case len(p.mapping) == maxMapping:
		p.on(pipeRefused)
		p.mapping = nil
	default:
		if p.mapping == nil {
			p.mapping = make(map[uint32]struct{})
		}
		p.mapping[tid] = struct{}{}
	}
}

// putFile puts the device's file at the descriptor of the call in hand: its thread is about to map.
func (r *receiver) putFile(o *object) {
	fd, err := o.direct.File()
	if err != nil {
		return // the pipe does not replace it
	}
	defer unix.Close(fd)
	switch err := r.replace(fd); {
	case err == errCallerGone:
	case err != nil:
		r.s.log.Warn("the program cannot map a queue, because it has lowered its limit of open files (RLIMIT_NOFILE, ulimit -n) "+
			"below where devices are kept: lower it before gorxe run instead", "error", err)
	case o.pipe.fd == r.fd(0):
		o.pipe.on(pipeFileIn)
	}
}

// putPipe puts the pipe there, if the process has opened the device. Other processes, which have
// forked, keep the file.
func (r *receiver) putPipe(o *object) {
	owner, err := r.caller.owner()
	if err != nil || owner.tgid != o.direct.Process() || !r.s.cfg.FDs.Doorbells().Contains(uint32(r.fd(0))) {
		return
	}
	fd, err := r.openPipe(o, owner)
	if err == nil {
		err = r.replace(fd)
		unix.Close(fd)
	}
	switch {
	case err == nil:
		o.pipe.on(pipePipeIn)
		o.pipe.fd = r.fd(0)
	case err == errCallerGone || errors.Is(err, doorbell.ErrPipeTaken): // the next call tries again
	default:
		o.pipe.on(pipeRefused)
	}
}

// errKept means that exec would not close the pipe. Nobody would read from it then.
var errKept = errors.New("the program keeps the descriptor for exec, or has changed its flags")

// openPipe returns a descriptor of the pipe for a device, to which calls on the pipe belong from
// now on. The caller closes it.
func (r *receiver) openPipe(o *object, owner *process) (int, error) {
	if !o.pipe.paid {
		if err := r.s.cfg.Budget.TakeNow(pipeCost); err != nil {
			return -1, err
		}
		o.pipe.paid = true
	}
	if !closedByExec(owner.tgid, int(r.fd(0))) {
		return -1, errKept
	}
	file, err := o.fileOf(owner.pidfd, int(r.fd(0)))
	if err != nil {
		return -1, err
	}
	fd, err := o.direct.UsePipe(file)
	if err != nil {
		return -1, err
	}
	if err := r.s.know(o, fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// fileOf returns a descriptor of the description of the device's file that a process has at fd.
// Another file may be there, so it asks for the file's name first: the server of a file system may
// never answer a stat.
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
	flags, err := procfs.FileFlags(pid, int32(fd))
	return err == nil && flags&unix.O_CLOEXEC != 0 && flags&unix.O_NONBLOCK == 0
}

// errCallerGone means that the thread of the call in hand has ended, or that a signal took it out
// of the call.
var errCallerGone = errors.New("the caller is gone")

// replace puts a file in the place of the descriptor of the call in hand.
func (r *receiver) replace(fd int) error {
	a := notify.Install{ID: r.n.ID, Source: uint32(fd), FD: uint32(r.fd(0)), Flags: unix.SECCOMP_ADDFD_FLAG_SETFD, Mode: unix.O_CLOEXEC}
	switch _, errno := r.s.listener.Install(&a); errno {
	case 0:
		return nil
	case unix.ENOENT, unix.ESRCH:
		return errCallerGone
	default:
		return errno
	}
}

// know makes calls on the pipe, of which fd is a descriptor, calls on the object. It fails if the
// session can know no more files.
func (s *Session) know(o *object, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	link := inflight.Link(&st)
	if link == o.pipe.link {
		return nil
	}
	if o.pipe.record != nil { // of the pipe before
		o.pipe.record.Free()
	}
	if o.pipe.record = s.page.AddPollable(&st); o.pipe.record == nil {
		return unix.EMFILE
	}
	s.objects.setPipe(o, link)
	return nil
}

// end is called when the object is closed. The keeper finds the pipe of a session that stops.
func (p *doorbellPipe) end(b *quota.Budget, stopping bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on(pipeRefused)
	if p.record != nil && !stopping {
		p.record.Free()
	}
	if p.paid {
		b.Give(pipeCost)
	}
}
