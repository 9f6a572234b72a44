package trap

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/internal/trap/vfs"
)

// open answers open, openat and creat.
func (r *receiver) open(dirfd int32, arg int, flags uint64) verdict {
	n, v := r.named(dirfd, arg, followOpen(flags))
	if n == nil {
		return v
	}
	return r.openNode(n, flags)
}

// followOpen tells whether open follows a link at the end of the path.
func followOpen(flags uint64) bool {
	return flags&unix.O_NOFOLLOW == 0 && flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
}

// openat2 has its flags in a struct open_how, and may confine the path.
func (r *receiver) openat2() verdict {
	p, ok := r.readPath(1)
	if !ok {
		return pass
	}
	var how [unix.SizeofOpenHow]byte
	if r.arg(3) < uint64(len(how)) || r.caller.peek(r.arg(2), how[:]) != nil {
		return pass // EINVAL or EFAULT
	}
	flags, resolve := binary.NativeEndian.Uint64(how[:]), binary.NativeEndian.Uint64(how[16:])
	if len(p) > 0 && p[0] == '/' && resolve&(unix.RESOLVE_IN_ROOT|unix.RESOLVE_BENEATH) != 0 {
		return pass // another root than the one with our tree in it
	}
	n, v := r.find(p, r.fd(0), followOpen(flags))
	if n == nil {
		return v
	}
	return r.openNode(n, flags)
}

// openNode opens a node as the kernel's files would be (fs/namei.c: do_open,
// fs/kernfs/file.c: kernfs_fop_open).
func (r *receiver) openNode(n *tree.Node, flags uint64) verdict {
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY
	cloexec := flags&unix.O_CLOEXEC != 0
	switch {
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return fail(unix.EEXIST)
	case n.Kind != tree.Dir && flags&unix.O_DIRECTORY != 0:
		return fail(unix.ENOTDIR)
	}
	switch n.Kind {
	case tree.Dir:
		if writes || flags&unix.O_CREAT != 0 {
			return fail(unix.EISDIR)
		}
		return r.openDir(n, cloexec)
	case tree.CharDev:
		return r.openDevice(n, flags)
	case tree.File:
		if writes {
			return fail(unix.EACCES) // whatever its mode: nothing takes what is written
		}
		if !r.mayRead(n) {
			return fail(unix.EACCES)
		}
		return r.openFile(n, cloexec)
	default: // a link that is not followed
		return fail(unix.ELOOP)
	}
}

// openDevice opens a device and gives the program a description of its memfd, with
// the access mode that the program asked for: mmap looks at that.
func (r *receiver) openDevice(n *tree.Node, flags uint64) verdict {
	mode, cloexec := int(flags&unix.O_ACCMODE), flags&unix.O_CLOEXEC != 0
	owner, err := r.caller.owner()
	if err != nil {
		return fail(unix.EACCES)
	}
	who, err := r.caller.credentials()
	if err != nil || !who.opens(n, accessOf(mode)) {
		return fail(unix.EACCES)
	}
	f, err := r.s.cfg.Host.Open(n, who)
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			r.s.log.Error("a device cannot be opened", "path", n.Path, "error", err)
		}
		return failed(err)
	}
	o := &object{node: n, file: f, readOnly: mode == unix.O_RDONLY}
	if p, ok := f.(kernel.PollFile); ok {
		return r.openPollable(o, p, flags)
	}
	fd, err := describe(f.FD(), mode)
	if err == nil {
		if err = r.s.ringDirectly(o, fd, owner); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		f.Close()
		r.s.log.Error("a device cannot be opened", "device", n.DeviceName, "error", err)
		return fail(unix.ENFILE)
	}
	return r.give(o, fd, cloexec)
}

// ringDirectly makes the doorbells of a device that the process opens direct, if it has any and
// they need not be trapped.
func (s *Session) ringDirectly(o *object, fd int, owner *process) (err error) {
	ringer, ok := o.file.(kernel.DoorbellFile)
	if !ok {
		return nil
	}
	if o.trapped = s.whyTrapped(owner, o.readOnly); o.trapped != "" {
		return nil
	}
	if o.direct, err = s.direct.add(ringer, fd, owner.tgid); o.direct == nil {
		return err
	}
	if n, ok := o.file.(kernel.NumberedFile); ok && s.cfg.Paced {
		o.pace = newPace(n)
	} else {
		s.log.Info("doorbells are not trapped", "device", o.node.DeviceName)
	}
	return nil
}

// openPollable gives the program its end of a pipe or a socket pair. This process
// notices a close on its own end, so it keeps no descriptor of the other one.
func (r *receiver) openPollable(o *object, p kernel.PollFile, flags uint64) verdict {
	o.polled = p
	p.OnReady(func() { r.s.waiting.ready(o) })
	fd, err := unix.FcntlInt(uintptr(p.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, flags&unix.O_NONBLOCK != 0)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		p.Close()
		r.s.log.Error("a file cannot be opened", "path", o.node.Path, "error", err)
		return fail(unix.ENFILE)
	}
	v := r.give(o, fd, flags&unix.O_CLOEXEC != 0)
	p.HandedOver()
	return v
}

// describe opens a device's memfd for the program. The file position is at the end, where
// the kernel refuses a write (EPERM, because the size is sealed). So a doorbell fails if it
// continues in the kernel, because the daemon has died with that call in flight.
func describe(memfd, mode int) (int, error) {
	fd, err := unix.Open(procfs.SelfFD(memfd), mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openUnreadable opens a file that opens, and then fails to be read: its read
// must be trapped.
func (r *receiver) openUnreadable(n *tree.Node, err error, cloexec bool) verdict {
	fd, ferr := sealed.ReadOnly("gorxe-file", nil)
	if ferr != nil {
		return fail(unix.ENFILE)
	}
	return r.give(&object{node: n, unread: failed(err).errno}, fd, cloexec)
}

// stat answers stat, lstat and newfstatat; the buffer is the argument after the
// path.
func (r *receiver) stat(dirfd int32, arg int, buf, flags uint64) verdict {
	n, v := r.statNode(dirfd, arg, flags)
	var st unix.Stat_t
	switch {
	case n != nil:
		st = r.s.mounts.Stat(n)
	case v.above == "":
		return v
	default:
		if err := unix.Stat(v.above, &st); err != nil {
			return failed(err)
		}
	}
	return r.store(buf, bytesOf(&st))
}

// statx has its flags before its buffer, and a mask that may be ignored: all
// basic fields are known.
func (r *receiver) statx() verdict {
	n, v := r.statNode(r.fd(0), 1, r.arg(2))
	var st unix.Statx_t
	switch {
	case n != nil:
		st = r.s.mounts.Statx(n)
	case v.above == "":
		return v
	default:
		if err := unix.Statx(unix.AT_FDCWD, v.above, 0, unix.STATX_BASIC_STATS, &st); err != nil {
			return failed(err)
		}
	}
	return r.store(r.arg(4), bytesOf(&st))
}

// statNode is the node that a call of the stat family means: by path, or with an
// empty one by descriptor.
func (r *receiver) statNode(dirfd int32, arg int, flags uint64) (*tree.Node, verdict) {
	empty := flags&unix.AT_EMPTY_PATH != 0
	var p []byte
	if !empty || r.arg(arg) != 0 { // no path at all is an empty one, since 6.11
		var ok bool
		if p, ok = r.readPath(arg); !ok {
			return nil, pass
		}
	}
	if len(p) == 0 && empty {
		return r.nodeOf(dirfd), pass
	}
	return r.find(p, dirfd, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
}

// accessOf returns the rights that an access mode of open(2) needs, as bits of access(2)
// (fs/namei.c: ACC_MODE).
func accessOf(mode int) uint32 {
	switch mode {
	case unix.O_RDONLY:
		return unix.R_OK
	case unix.O_WRONLY:
		return unix.W_OK
	default:
		return unix.R_OK | unix.W_OK
	}
}

// accessBits are all bits of access(2).
const accessBits = unix.R_OK | unix.W_OK | unix.X_OK

// access answers access, faccessat and faccessat2 (generic_permission).
func (r *receiver) access(dirfd int32, arg int, mode, flags uint64) verdict {
	n, v := r.named(dirfd, arg, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if n == nil {
		if v.above != "" && mode&unix.W_OK == 0 {
			return value(0)
		}
		return v
	}
	if mode <= accessBits && forAll(n, uint32(mode)) {
		return value(0)
	}
	who, err := r.caller.credentials()
	if err != nil {
		return fail(unix.EACCES)
	}
	permits := who.accesses
	if flags&unix.AT_EACCESS != 0 {
		permits = who.opens
	}
	if mode > accessBits || !permits(n, uint32(mode)) {
		return fail(unix.EACCES)
	}
	return value(0)
}

// readlink answers readlink and readlinkat: no zero at the end, and cut without
// a word.
func (r *receiver) readlink(dirfd int32, arg int, buf, size uint64) verdict {
	n, v := r.named(dirfd, arg, false)
	if n == nil {
		return v
	}
	if int32(size) <= 0 || n.Kind != tree.Link {
		return fail(unix.EINVAL)
	}
	target := n.Target()
	target = target[:min(uint64(len(target)), size)]
	if v := r.store(buf, []byte(target)); v.errno != 0 {
		return v
	}
	return value(int64(len(target)))
}

// chdir into the tree is refused: the kernel has no such directory to give. To say
// otherwise would be dangerous, since relative names in calls that are not trapped
// (unlink, rename) would go on meaning the directory where the program was.
func (r *receiver) chdir() verdict {
	n, v := r.named(vfs.CWD, 0, true)
	switch {
	case n == nil:
		return v
	case n.Kind != tree.Dir:
		return fail(unix.ENOTDIR)
	default:
		return fail(unix.EACCES)
	}
}

// statfs says which file system a path of the tree would be on.
func (r *receiver) statfs() verdict {
	n, v := r.named(vfs.CWD, 0, true)
	if n == nil {
		return v
	}
	st := vfs.Statfs(n)
	return r.store(r.arg(1), bytesOf(&st))
}

// xattr answers what reads extended attributes by path: there are none.
func (r *receiver) xattr() verdict {
	n, v := r.named(vfs.CWD, 0, true)
	if n == nil {
		return v
	}
	return fail(unix.EOPNOTSUPP)
}

// store writes a result to the program and is the verdict of a call that
// succeeds with 0 then.
func (r *receiver) store(addr uint64, b []byte) verdict {
	if err := r.caller.Write(addr, b); err != nil {
		return failed(err)
	}
	return value(0)
}

// bytesOf is the memory of a struct that the kernel's ABI defines.
func bytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
