package trap

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
)

// openMem opens the memory of the process behind pidfd, which the caller of the
// call in hand belongs to; through the keeper if it must.
func (r *receiver) openMem(pidfd int) (int, error) {
	fd, err := procmem.Open(r.thread())
	if err == nil || !procmem.Forbidden(err) {
		return fd, err
	}
	if k := r.s.cfg.Keeper; k != nil {
		kept, kerr := k.OpenMem(pidfd)
		if kerr == nil {
			return kept, nil
		}
		return -1, fmt.Errorf("%w; its keeper could not open it either: %w", procmem.NoAccess(err), kerr)
	}
	return -1, procmem.NoAccess(err)
}

// complain logs an error that makes devices useless for a program, once.
func (s *Session) complain(err error) {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, os.ErrNotExist) {
		return // it has just ended
	}
	if s.complained.CompareAndSwap(false, true) {
		s.log.Error("devices do not work for this program", "error", err)
	}
}

// complainAloud is complain of a process that surely means a device. It also tells the user.
func (r *receiver) complainAloud(err error) {
	s := r.s
	s.complain(err)
	if s.cfg.Say == nil || !procmem.Forbidden(err) || !s.told.CompareAndSwap(false, true) {
		return
	}
	st, _ := procfs.ReadStatus(r.thread())
	s.cfg.Say(fmt.Sprintf("process %d, of user %d, has no RDMA device: %v. A process that changes its user keeps the device "+
		"if it executes a program then, or if the container has the capability SYS_PTRACE", st.TGID, st.UID, err))
}

// KeepMem is the keeper's side of Keeper.OpenMem: it opens the memory of the
// process behind pidfd, which must be a descendant of the calling process.
func KeepMem(pidfd int) (*os.File, error) {
	pid, err := procfs.Descendant(pidfd)
	if err != nil {
		return nil, err
	}
	var f *os.File
	err = asAllowed(pid, func() (err error) {
		f, err = os.OpenFile(procfs.Path(pid, "mem"), os.O_RDWR, 0)
		return err
	})
	if err != nil {
		if procmem.Forbidden(err) {
			err = procmem.NoAccess(err)
		}
		return nil, err
	}
	// The number was the process's all the time if it still is there.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	return f, nil
}

// KeepStat is the keeper's side of StatKeeper.
func KeepStat(pidfd int, fd int32) (fdid.ID, error) {
	pid, err := procfs.Descendant(pidfd)
	if err != nil {
		return fdid.ID{}, err
	}
	var id fdid.ID
	err = asAllowed(pid, func() (err error) {
		id, err = statID(procfs.Path(pid, "fd/"+strconv.Itoa(int(fd))))
		return err
	})
	return id, err
}

// asAllowed calls look, which looks at a descendant, and again as the descendant's user if that is
// forbidden: a program of root's may have become another user's.
func asAllowed(pid int, look func() error) error {
	err := look()
	if !procmem.Forbidden(err) || os.Geteuid() != 0 {
		return err
	}
	if again := procfs.AsUserOf(pid, look); again == nil || !procmem.Forbidden(again) {
		return again
	}
	return err
}

// StatKeeper is a Keeper that can also look at descriptors. It is needed where
// this process may not: for another user's programs without CAP_SYS_PTRACE. What
// it does not help with there: relative paths, which are left to the kernel, and
// dup of a device, which is EMFILE.
type StatKeeper interface {
	Keeper
	// Stat is fstat of descriptor fd of the process that pidfd stands for; ENOENT
	// if there is none.
	Stat(pidfd int, fd int32) (fdid.ID, error)
}

// keptID asks the keeper what a descriptor is, when looking failed with err.
func (r *receiver) keptID(fd int32, err error) (fdid.ID, error) {
	k, ok := r.s.cfg.Keeper.(StatKeeper)
	if !ok || !procmem.Forbidden(err) {
		return fdid.ID{}, err
	}
	p, err := r.caller.owner()
	if err != nil {
		return fdid.ID{}, err
	}
	id, err := k.Stat(p.pidfd, fd)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EBADF
	}
	return id, err
}
