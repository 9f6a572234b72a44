package trap

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/internal/trap/vfs"
)

// Generic commands of include/uapi/asm-generic/ioctls.h.
const (
	fioNBIO  = 0x5421
	fioNClex = 0x5450
	fioClex  = 0x5451
	fioAsync = 0x5452
)

// ioctl passes a call to the device, except commands that the kernel answers for every file
// (fs/ioctl.c: do_vfs_ioctl).
func (r *receiver) ioctl() verdict {
	o := r.object(r.fd(0))
	if o == nil {
		return pass
	}
	switch cmd := uint32(r.arg(1)); {
	case cmd == fioClex || cmd == fioNClex || cmd == fioNBIO || cmd == fioAsync:
		return pass
	case o.file == nil:
		return fail(unix.ENOTTY)
	default:
		return r.onFile(o)
	}
}

func verdictOf(n int64, err error) verdict {
	switch err {
	case nil:
		return value(n)
	case kernel.ErrWait:
		return verdict{kind: waits}
	case kernel.ErrKernel:
		return pass
	default:
		return failed(err)
	}
}

// onFile makes the in-flight call on a file, and leaves it waiting if it has to.
func (r *receiver) onFile(o *object) verdict {
	seen := o.events.Load()
	switch {
	case r.paced(o):
		return r.stopped(o)
	case o.pace != nil:
		o.pace.stops.Allow(stopsOfCall)
		o.pace.slow()
		r.slowFork(o)
	case o.direct != nil:
		return r.onDirect(o)
	}
	v := r.tryFile(o)
	if v.kind == waits {
		return r.s.waiting.add(r, o, seen)
	}
	return v
}

// onDirect makes the in-flight call on a device with direct doorbells.
func (r *receiver) onDirect(o *object) verdict {
	before, _ := o.mappings()
	v := r.tryFile(o)
	if v.kind != sent {
		r.chooseFile(o, before)
	}
	return v
}

// tryFile makes the in-flight call on a file. The call's arguments have been checked, except
// the memory that they point to.
func (r *receiver) tryFile(o *object) verdict {
	if o.socket != nil {
		return r.onSocket(o.socket)
	}
	buf, n := r.arg(1), r.arg(2)
	if r.n.NR == unix.SYS_WRITEV || r.n.NR == unix.SYS_READV {
		var iov [16]byte
		if err := r.caller.Read(buf, iov[:]); err != nil {
			return failed(err)
		}
		buf, n = binary.NativeEndian.Uint64(iov[:]), binary.NativeEndian.Uint64(iov[8:])
	}
	var v verdict
	switch r.n.NR {
	case unix.SYS_WRITE, unix.SYS_WRITEV:
		v = verdictOf(o.file.Write(&r.caller, buf, n))
	case unix.SYS_READ, unix.SYS_READV:
		v = verdictOf(o.file.Read(&r.caller, buf, n))
	default:
		v = verdictOf(o.file.Ioctl(&r.caller, uint32(r.arg(1)), r.arg(2)))
	}
	if r.caller.delivered {
		return verdict{kind: sent}
	}
	return v
}

// write goes to the device: older commands, and the doorbell. A writev with one piece is a write.
// With more, the kernel makes a write of each (fs/read_write.c: do_loop_readv_writev); nobody does
// that to a device.
func (r *receiver) write() verdict {
	o := r.object(r.fd(0))
	switch {
	case o == nil:
		return pass
	case o.file == nil || o.readOnly:
		return fail(unix.EBADF) // not open for writing
	case r.n.NR == unix.SYS_WRITEV && r.arg(2) != 1 && o.socket == nil:
		return fail(unix.EINVAL)
	default:
		return r.onFile(o)
	}
}

// read answers read.
func (r *receiver) read() verdict {
	o := r.object(r.fd(0))
	if o != nil && o.file != nil {
		return r.onFile(o)
	}
	if o == nil || o.live == nil {
		return unreadable(o, unix.EINVAL)
	}
	return r.readOn(o, r.arg(1), r.arg(2))
}

// readv answers as read does that gets the first piece full and no more, which a
// program must expect of any file.
func (r *receiver) readv() verdict {
	o := r.object(r.fd(0))
	if o != nil && o.file != nil && r.arg(2) > 0 {
		return r.onFile(o)
	}
	if o == nil || o.live == nil {
		return unreadable(o, unix.EINVAL)
	}
	var iov [16]byte
	if r.arg(2) == 0 {
		return value(0)
	}
	if err := r.caller.Read(r.arg(1), iov[:]); err != nil {
		return failed(err)
	}
	return r.readOn(o, binary.NativeEndian.Uint64(iov[:]), binary.NativeEndian.Uint64(iov[8:]))
}

// pread answers pread64; a device has no position.
func (r *receiver) pread() verdict {
	o := r.object(r.fd(0))
	if o == nil || o.live == nil {
		return unreadable(o, unix.ESPIPE)
	}
	if int64(r.arg(3)) < 0 {
		return fail(unix.EINVAL)
	}
	return r.readLive(o, int64(r.arg(3)), r.arg(1), r.arg(2))
}

// unreadable is the verdict on a read of what is not live.
func unreadable(o *object, device unix.Errno) verdict {
	switch {
	case o == nil:
		return pass
	case o.dir != nil:
		return fail(unix.EISDIR)
	case o.file != nil:
		return fail(device)
	default:
		return fail(o.unread)
	}
}

// noDevice answers calls that a device refuses with e (struct file_operations
// uverbs_fops lacks them), and that the memfd behind it would carry out. On other
// objects they are the kernel's.
func (r *receiver) noDevice(e unix.Errno) verdict {
	if o := r.object(r.fd(0)); o != nil && o.file != nil {
		return fail(e)
	}
	return pass
}

// lseek moves in a directory or a file; a device has no position.
func (r *receiver) lseek() verdict {
	o := r.object(r.fd(0))
	var p *vfs.Position
	switch {
	case o == nil:
		return pass
	case o.dir != nil:
		p = &o.dir.Position
	case o.live != nil:
		p = &o.live.Position
	default:
		return fail(unix.ESPIPE)
	}
	return verdictOf(p.Lseek(int64(r.arg(1)), int32(r.arg(2))))
}

func (r *receiver) fstat() verdict {
	n := r.nodeOf(r.fd(0))
	if n == nil {
		return pass
	}
	st := r.s.mounts.Stat(n)
	return r.store(r.arg(1), bytesOf(&st))
}

func (r *receiver) fstatfs() verdict {
	o := r.object(r.fd(0))
	if o == nil {
		return pass
	}
	st := vfs.Statfs(o.node)
	return r.store(r.arg(1), bytesOf(&st))
}

func (r *receiver) fchdir() verdict {
	o := r.object(r.fd(0))
	switch {
	case o == nil:
		return pass
	case o.node.Kind != tree.Dir:
		return fail(unix.ENOTDIR)
	default:
		return fail(unix.EACCES) // see chdir
	}
}

func (r *receiver) fxattr() verdict {
	if r.object(r.fd(0)) == nil {
		return pass
	}
	return fail(unix.EOPNOTSUPP)
}

// forget answers calls that change what a number of the range refers to, and that
// the kernel carries out: close, close_range, dup2 and dup3. A dup2 to a number
// below the range moves a device out of sight; the program wants that number, and
// no other would do.
func (r *receiver) forget() verdict {
	r.retire()
	r.s.procs.forget()
	r.unplace()
	return pass
}

// dup gives a duplicate a number in the range too, or its calls would not be
// seen. It is the same description, taken from the program for a moment.
func (r *receiver) dup(flags int) verdict { return r.dupFrom(flags, 0) }

// dupFrom is dup to a number that is not below from.
func (r *receiver) dupFrom(flags int, from uint32) verdict {
	o := r.object(r.fd(0))
	if o == nil {
		return pass
	}
	if from > 0 && from >= r.openLimit() {
		return fail(unix.EINVAL) // fs/fcntl.c: f_dupfd
	}
	owner, err := r.caller.owner()
	if err != nil {
		return fail(unix.EMFILE)
	}
	fd, err := unix.PidfdGetfd(owner.pidfd, int(r.fd(0)), 0)
	if err != nil {
		if procmem.Forbidden(err) {
			r.s.complain(procmem.NoAccess(err))
			return fail(unix.EMFILE)
		}
		return failed(err)
	}
	defer unix.Close(fd)
	return r.install(o, fd, flags&unix.O_CLOEXEC != 0, from)
}

// fcntl is trapped for its two kinds of dup.
func (r *receiver) fcntl() verdict {
	flags := 0
	if uint32(r.arg(1)) == unix.F_DUPFD_CLOEXEC {
		flags = unix.O_CLOEXEC
	}
	return r.dupFrom(flags, uint32(r.arg(2)))
}

// exec lets the call go on when nothing that is under way could hit the new
// program. It may have to wait for that, which is not for the receiver to do.
func (r *receiver) exec() verdict {
	s := r.s
	s.procs.forget()
	if !s.procs.any() {
		return pass
	}
	st, err := procfs.ReadStatus(r.thread())
	if err != nil {
		return pass
	}
	p := s.procs.leader(st.TGID)
	if p == nil {
		return pass
	}
	s.procs.exec(p)
	id := r.n.ID
	s.users.Add(1)
	s.running.Go(func() {
		defer s.release()
		p.space.PrepareExec()
		s.listener.Continue(id)
	})
	return verdict{kind: sent}
}

// getdents answers getdents and getdents64.
func (r *receiver) getdents(f vfs.DirentForm) verdict {
	o := r.object(r.fd(0))
	switch {
	case o == nil:
		return pass
	case o.dir == nil:
		return fail(unix.ENOTDIR)
	}
	d := o.dir
	pos := d.At()
	b, next, err := d.List(f, pos, int(min(uint64(uint32(r.arg(2))), vfs.DirentChunk)))
	if err != nil {
		return failed(err)
	}
	// No lock here: the program's memory may not answer.
	if v := r.store(r.arg(1), b); v.errno != 0 {
		return v
	}
	d.Set(next)
	return value(int64(len(b)))
}
