package trap

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/nlsocket"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/trap/threads"
	"github.com/gorxe/gorxe/internal/trap/vfs"
)

// An object is what a descriptor of ours refers to: an open device, a directory,
// a file that is read again and again, or one that cannot be read. In the program
// it is a memfd, or a pipe or a socket if it can be polled. Device and inode of that
// tell which; duplicates, in forked processes
// too, are the same object.
type object struct {
	id    fdid.ID
	watch int // of Closes; unwatched if there is none
	kept  int // a descriptor of what is not watched
	node  *tree.Node

	polled   kernel.PollFile  // of a device: the same, if its descriptor is a pipe or a socket
	hangUp   *threads.Source  // of polled: the daemon's end, which hangs up
	record   *inflight.Record // of polled: where the keeper finds it
	link     string           // of polled: what /proc/PID/fd shows of it
	events   atomic.Uint64    // of polled: how often it was ready
	orphan   bool             // of polled: only waiting calls refer to it; under waiting.mu
	file     File             // of a device, and of a socket
	socket   *nlsocket.Socket // of a socket: its calls are answered with it
	readOnly bool             // of a device: write(2) is refused, as by the kernel's VFS
	direct   *doorbell.Device // of a device: its doorbells, if they are not trapped
	trapped  string           // of a device: why it has none
	pace     *pace            // of direct: nil unless posts are watched
	told     bool             // the file knows; install guards it
	pipe     doorbellPipe     // of direct: in the place of the memfd
	dir      *vfs.Directory   // of a directory
	live     *vfs.LiveFile    // of a file whose content is ever new
	unread   unix.Errno       // of a file: what a read answers
	cost     quota.Cost
	closing  sync.Once
}

// unwatched is in the place of a watch's number.
const unwatched = -1

// objects are a session's.
type objects struct {
	mu     sync.Mutex
	byID   map[fdid.ID]*object
	byLink map[string]*object // those that can be polled
	byWD   map[int]*object
	refuse bool // the session ends

	// install serialises the search for a free number and its use.
	install sync.Mutex
}

func (t *objects) init() {
	t.byID, t.byLink, t.byWD = make(map[fdid.ID]*object), make(map[string]*object), make(map[int]*object)
}

func (t *objects) get(id fdid.ID) *object {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// pollable returns the object of which /proc/PID/fd shows link.
func (t *objects) pollable(link string) *object {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byLink[link]
}

func (t *objects) byWatch(wd int) *object {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byWD[wd]
}

func (t *objects) put(o *object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refuse {
		return false
	}
	t.byID[o.id] = o
	if o.link != "" {
		t.byLink[o.link] = o
	}
	if o.watch != unwatched {
		t.byWD[o.watch] = o
	}
	return true
}

func (t *objects) remove(o *object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, o.id)
	delete(t.byLink, o.link)
	if t.byLink[o.pipe.link] == o {
		delete(t.byLink, o.pipe.link)
	}
	delete(t.byWD, o.watch)
}

// setPipe enters the object by its pipe, of which /proc/PID/fd shows link.
func (t *objects) setPipe(o *object, link string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byLink[o.pipe.link] == o {
		delete(t.byLink, o.pipe.link)
	}
	o.pipe.link = link
	if !t.refuse {
		t.byLink[link] = o
	}
}

// all lists the objects, and lets no more come.
func (t *objects) all() []*object {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refuse = true
	list := make([]*object, 0, len(t.byID))
	for _, o := range t.byID {
		list = append(list, o)
	}
	return list
}

// hungUp returns the pollable files that the program has closed. One that is being closed may
// be among them.
func (t *objects) hungUp() []*object {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*object
	var fds []unix.PollFd
	for _, o := range t.byID {
		if o.polled != nil {
			list, fds = append(list, o), append(fds, unix.PollFd{Fd: int32(o.polled.Poll())})
		}
	}
	gone := list[:0]
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return nil
	}
	for i, fd := range fds {
		if fd.Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			gone = append(gone, list[i])
		}
	}
	return gone
}

// closeObject releases what nobody refers to any more. Closing a device may wait
// for work on memory that does not answer, so it has a goroutine of its own.
func (s *Session) closeObject(o *object) {
	o.closing.Do(func() {
		if o.direct != nil {
			o.direct.Remove()
			o.pipe.end(s.cfg.Budget, s.stopping.Load())
		}
		s.objects.remove(o)
		s.procs.dropObject(o)
		s.procs.forget()
		s.unwatch(o)
		s.forgetFile(o)
		s.cfg.Budget.Give(o.cost)
		if o.file != nil {
			given := s.cfg.Budget.Giving()
			s.closing.Go(func() {
				defer given()
				o.file.Close()
			})
		}
	})
}

func statID(path string) (fdid.ID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fdid.ID{}, err
	}
	return fdid.FromStat(&st), nil
}

func (r *receiver) procFD(fd int32) string {
	return "/proc/" + strconv.Itoa(r.thread()) + "/fd/" + strconv.Itoa(int(fd))
}

// fileID is what the caller's descriptor refers to.
func (r *receiver) fileID(fd int32) (fdid.ID, error) {
	if fd < 0 {
		return fdid.ID{}, unix.EBADF
	}
	id, err := statID(r.procFD(fd))
	switch err {
	case nil:
		return id, nil
	case unix.ENOENT:
		return id, unix.EBADF
	default:
		return r.keptID(fd, err)
	}
}

// hotTable remembers what descriptors referred to a moment ago. An entry ends
// with the next trapped close, dup or exec of the session (processes.epoch). What
// is not seen, as a descriptor's move by io_uring, ends with hotLife.
type hotTable [hotEntries]hotEntry

type hotEntry struct {
	tid     uint32
	fd      int32
	epoch   uint64
	until   int64
	object  *object
	process *process
}

func (h *hotTable) at(tid uint32, fd int32) *hotEntry {
	return &h[(tid*hotSpread+uint32(fd))%uint32(len(h))]
}

// object is what the caller's descriptor refers to, nil if it is not ours. It remembers that in
// hot.
func (r *receiver) object(fd int32) *object {
	if !r.s.cfg.FDs.Ours(uint32(fd)) {
		return nil
	}
	epoch := r.s.procs.epoch.Load()
	e := r.hot.at(r.n.TID, fd)
	if now := clock.Now(); e.tid == r.n.TID && e.fd == fd && e.epoch == epoch && now < e.until {
		if p, err := r.caller.owner(); err == nil && p == e.process {
			return e.object
		}
	}
	o := r.findObject(fd)
	// The closes of a pollable file are not trapped, nor others outside of the range. So hot does
	// not have them, because nothing would say when that is over.
	if o == nil || o.polled != nil || !r.s.cfg.FDs.Contains(uint32(fd)) {
		return o
	}
	if p, err := r.caller.owner(); err == nil {
		now := clock.Now()
		*e = hotEntry{r.n.TID, fd, epoch, now + hotLife, o, p}
		p.placed.put(uint32(fd), o)
		if r.s.procs.epoch.Load() != epoch { // another thread may have closed it meanwhile
			p.placed.drop(uint32(fd), uint32(fd))
		}
	}
	return o
}

// findObject is object without hot. The link comes first: it costs nothing, where a stat of some
// other file may ask a file server that does not answer.
func (r *receiver) findObject(fd int32) *object {
	if link, err := procfs.Readlink(r.procFD(fd)); err == nil && !strings.HasPrefix(link, inflight.MemfdPrefix) {
		return r.s.objects.pollable(link)
	}
	id, err := r.fileID(fd)
	switch {
	case err == nil:
		return r.s.objects.get(id)
	case procmem.Forbidden(err):
		return r.placedAt(fd)
	default:
		return nil
	}
}

// give installs an object in the program as the answer to the call in hand. fd is
// a description for the program alone, which give closes: with it goes the object,
// if the program does not get it.
func (r *receiver) give(o *object, fd int, cloexec bool) verdict {
	defer unix.Close(fd)
	if err := r.s.adopt(o, fd); err != nil {
		r.s.log.Error("a file cannot be opened for the program", "path", o.node.Path, "error", err)
		if o.direct != nil {
			o.direct.Remove()
		}
		if o.file != nil {
			o.file.Close()
		}
		return failed(err)
	}
	return r.install(o, fd, cloexec, 0)
}

// adopt enters an object in the session's tables.
func (s *Session) adopt(o *object, fd int) error {
	if err := s.cfg.Budget.Take(objectCost); err != nil {
		return err
	}
	o.cost = objectCost
	err := s.enter(o, fd)
	if err != nil {
		s.cfg.Budget.Give(o.cost)
	}
	return err
}

func (s *Session) enter(o *object, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	o.id = fdid.FromStat(&st)
	if o.polled != nil {
		o.link = inflight.Link(&st)
		if o.record = s.page.AddPollable(&st); o.record == nil {
			return unix.EMFILE
		}
	}
	if err := s.watch(o, fd); err != nil {
		s.forgetFile(o)
		return err
	}
	if !s.objects.put(o) {
		s.unwatch(o)
		s.forgetFile(o)
		return unix.ENODEV
	}
	return nil
}

// forgetFile tells the keeper that a pollable file is gone.
func (s *Session) forgetFile(o *object) {
	if o.record != nil {
		o.record.Free()
	}
}

// watch has the object closed when its file is. An object that cannot be watched is closed
// with the session. Until then something must refer to the inode, because its number
// identifies the object.
func (s *Session) watch(o *object, fd int) (err error) {
	if o.polled != nil {
		o.watch = unwatched
		return s.house.watchPoll(o)
	}
	if o.watch, err = s.cfg.Closes.watch(fd, s.house); err == nil {
		return nil
	}
	if s.unwatched.CompareAndSwap(false, true) {
		s.log.Warn("devices and directories that the program closes stay open until it ends", "error", err)
	}
	if err := s.cfg.Budget.Take(keptCost); err != nil {
		return err
	}
	o.watch = unwatched
	if o.kept, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		s.cfg.Budget.Give(keptCost)
		return fmt.Errorf("dup: %w", err)
	}
	o.cost.Files += keptCost.Files
	return nil
}

// unwatch ends what watch began.
func (s *Session) unwatch(o *object) {
	if o.polled != nil {
		o.hangUp.Remove()
		return
	}
	if o.watch == unwatched {
		unix.Close(o.kept)
		return
	}
	s.cfg.Closes.unwatch(o.watch)
}

// numbers are where in the range descriptors of the object may be, the best first. The kernel
// carries out a write of 32 bytes on those of direct doorbells; on what cannot be written to, it
// fails as it should.
func (o *object) numbers(all filter.Range) []filter.Range {
	switch {
	case o.socket != nil:
		return []filter.Range{all.Trapped()}
	case o.pace != nil:
		return []filter.Range{all.Devices()}
	case o.direct != nil:
		return []filter.Range{all.Doorbells(), all.Devices()}
	case o.file != nil && !o.readOnly:
		return []filter.Range{all.Devices()}
	case o.file != nil:
		return []filter.Range{all.Devices(), all.Doorbells()}
	default:
		return []filter.Range{all.Trapped(), all.Doorbells()}
	}
}

// install puts fd, which refers to o, at a free number from the given one on, and answers the
// call with it.
func (r *receiver) install(o *object, fd int, cloexec bool, from uint32) verdict {
	s := r.s
	s.objects.install.Lock()
	defer s.objects.install.Unlock()
	n, ok := r.freeFor(o, bounds{from, noEnd})
	if !ok {
		return r.noNumber()
	}
	s.procs.forget()
	a := notify.Install{
		ID: r.n.ID, Source: uint32(fd), FD: n,
		Flags: unix.SECCOMP_ADDFD_FLAG_SETFD | unix.SECCOMP_ADDFD_FLAG_SEND,
	}
	if cloexec {
		a.Mode = unix.O_CLOEXEC
	}
	errno := r.installAt(o, &a)
	if errno == unix.EBADF { // the number is not below the program's limit
		if a.FD, ok = r.freeFor(o, bounds{from, r.openLimit()}); !ok {
			return r.noNumber()
		}
		errno = r.installAt(o, &a)
	}
	switch errno {
	case 0, unix.ENOENT, unix.ESRCH, unix.EINPROGRESS: // the last three: the caller is gone
		return verdict{kind: sent}
	case unix.EBADF:
		return r.noNumber()
	default:
		return fail(errno)
	}
}

// installAt puts a descriptor of o at a number.
func (r *receiver) installAt(o *object, a *notify.Install) unix.Errno {
	owner, err := r.caller.owner()
	if err == nil {
		owner.placed.put(a.FD, o) // before the program can use it
	}
	o.tellRinging(r.s.cfg.FDs, a.FD)
	_, errno := r.s.listener.Install(a)
	if err == nil && errno == unix.EBADF {
		owner.placed.drop(a.FD, a.FD)
	}
	return errno
}

// noNumber refuses a descriptor as the kernel does.
func (r *receiver) noNumber() verdict {
	r.s.log.Warn("the program has no descriptor left for a device", "range", r.s.cfg.FDs,
		"remedy", "raise its limit of open files (RLIMIT_NOFILE, ulimit -n)")
	return fail(unix.EMFILE)
}
