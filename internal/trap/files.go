package trap

import (
	"errors"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/internal/trap/vfs"
	"golang.org/x/sys/unix"
)

func (r *receiver) openDir(n *tree.Node, cloexec bool) verdict {
	fd, err := sealed.ReadOnly("gorxe-dir", nil)
	if err != nil {
		return r.cannotOpen(n, err)
	}
	return r.give(&object{node: n, dir: vfs.NewDirectory(n)}, fd, cloexec)
}

// mayRead reports whether the caller may read a file. Most files are for everybody, so most opens
// do not ask for the caller's user.
func (r *receiver) mayRead(n *tree.Node) bool {
	if forAll(n, unix.R_OK) {
		return true
	}
	who, err := r.caller.credentials()
	return err == nil && who.opens(n, unix.R_OK)
}

// openFile gives the program the content of a file, as an ordinary file that all sessions
// share. Its number is in the range where fstat is trapped.
func (r *receiver) openFile(n *tree.Node, cloexec bool) verdict {
	content, err := n.Content()
	if err != nil {
		return r.openUnreadable(n, err, cloexec)
	}
	if n.Live {
		return r.openLive(n, content, cloexec)
	}
	fd, err := r.s.cfg.Contents.Open(vfs.MemfdName(n), content)
	switch {
	case errors.Is(err, sealed.ErrNoRoom):
		return r.openLive(n, content, cloexec)
	case err != nil:
		return r.cannotOpen(n, err)
	}
	defer unix.Close(fd)
	a := notify.Install{ID: r.n.ID, Source: uint32(fd), Flags: unix.SECCOMP_ADDFD_FLAG_SEND}
	if cloexec {
		a.Mode = unix.O_CLOEXEC
	}
	errno := r.placeFile(a)
	if errno == unix.EBADF {
		_, errno = r.s.listener.Install(&a) // at any number: fstat is the memfd's then
	}
	switch errno {
	case 0, unix.ENOENT, unix.ESRCH, unix.EINPROGRESS:
		return verdict{kind: sent}
	default:
		return fail(errno)
	}
}

// openLive gives the program a file whose reads are trapped. The user's budget bears what it
// costs.
func (r *receiver) openLive(n *tree.Node, content []byte, cloexec bool) verdict {
	fd, err := sealed.ReadOnly(vfs.MemfdName(n), content)
	if err != nil {
		return r.cannotOpen(n, err)
	}
	return r.give(&object{node: n, live: new(vfs.LiveFile)}, fd, cloexec)
}

func (r *receiver) cannotOpen(n *tree.Node, err error) verdict {
	r.s.log.Error("a file or directory cannot be opened for the program", "path", n.Path, "error", err)
	return fail(unix.ENFILE)
}

// placeFile answers with a descriptor in the range of files. EBADF means that no number is
// free.
func (r *receiver) placeFile(a notify.Install) unix.Errno {
	r.s.objects.install.Lock()
	defer r.s.objects.install.Unlock()
	n, ok := r.freeFD([]filter.Range{r.s.cfg.FDs.Files()}, bounds{end: noEnd}, func(fd int32) bool {
		_, err := procfs.Readlink(r.procFD(fd))
		return err == unix.ENOENT // where it is forbidden to look, nodeOf could not either
	})
	if !ok {
		return unix.EBADF
	}
	a.FD, a.Flags = n, a.Flags|unix.SECCOMP_ADDFD_FLAG_SETFD
	_, errno := r.s.listener.Install(&a)
	return errno
}

// readOn reads from where the last read ended.
func (r *receiver) readOn(o *object, buf, size uint64) verdict {
	at := o.live.At()
	v := r.readLive(o, at, buf, size)
	if v.errno == 0 {
		o.live.Set(at + v.val)
	}
	return v
}

// readLive reads from a position.
func (r *receiver) readLive(o *object, at int64, buf, size uint64) verdict {
	content, err := o.live.Read(o.node, at)
	if err != nil {
		return failed(err)
	}
	content = content[min(at, int64(len(content))):]
	content = content[:min(size, uint64(len(content)))]
	if v := r.store(buf, content); v.errno != 0 {
		return v
	}
	return value(int64(len(content)))
}

// nodeOf is what of the tree the caller's descriptor refers to, nil if nothing.
func (r *receiver) nodeOf(fd int32) *tree.Node {
	if o := r.object(fd); o != nil {
		return o.node
	}
	if !r.s.cfg.FDs.Files().Contains(uint32(fd)) {
		return nil
	}
	link, err := procfs.Readlink(r.procFD(fd))
	if err != nil {
		return nil
	}
	return vfs.NodeOf(r.s.cfg.Host.Tree(), link)
}
