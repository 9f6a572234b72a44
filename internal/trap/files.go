package trap

import (
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/memfd"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/notify"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"golang.org/x/sys/unix"
)

// filePrefix begins the name of the memfd with the content of a file of the tree,
// whose path follows: so its status can be answered without a table. A program that
// makes such a memfd deceives itself.
const filePrefix = "gorxe-file:"

// maxMemfdName is how long a name may be (mm/memfd.c: MFD_NAME_MAX_LEN).
const maxMemfdName = 249

// openFile gives the program the content of a file, as an ordinary file. Its number is in the
// range where fstat is trapped. Reads of a live file are trapped too.
func (r *receiver) openFile(n *tree.Node, cloexec bool) verdict {
	content, err := n.Content()
	if err != nil {
		return r.openUnreadable(n, err, cloexec)
	}
	name := filePrefix + n.Path
	fd, err := readOnly(name[:min(len(name), maxMemfdName)], content)
	if err != nil {
		r.s.log.Error("a file cannot be opened for the program", "path", n.Path, "error", err)
		return fail(unix.ENFILE)
	}
	if n.Live {
		return r.give(&object{node: n, live: new(liveFile)}, fd, cloexec)
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

// placeFile answers with a descriptor in the range of files. EBADF means that no number is
// free.
func (r *receiver) placeFile(a notify.Install) unix.Errno {
	r.s.objects.install.Lock()
	defer r.s.objects.install.Unlock()
	n, ok := r.freeFD([]filter.Range{r.s.cfg.FDs.Files()}, func(fd int32) bool {
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

// memfdCreate makes an empty file that can be sealed, and says who forbids it.
func memfdCreate(name string) (int, error) {
	fd, err := memfd.Create(name)
	switch {
	case err == nil:
		return fd, nil
	case procmem.Forbidden(err):
		return -1, fmt.Errorf("memfd_create: %w: %s", err, filter.Sandboxed("memfd_create"))
	}
	return -1, fmt.Errorf("memfd_create: %w", err)
}

// readOnly makes a descriptor that reads content, which nobody can change.
func readOnly(name string, content []byte) (int, error) {
	fd, err := memfdCreate(name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err != nil {
			return -1, fmt.Errorf("writing a memfd: %w", err)
		}
		content = content[n:]
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, fmt.Errorf("sealing a memfd: %w", err)
	}
	ro, err := unix.Open(procfs.SelfFD(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("reopening a memfd: %w", err)
	}
	return ro, nil
}

// liveFile is an open file that says something new whenever it is read from the
// start, as all do in the kernel (fs/seq_file.c: seq_read_iter).
type liveFile struct {
	position
	content []byte // at the last read from the start; under mu
}

// readOn reads from where the last read ended.
func (r *receiver) readOn(o *object, buf, size uint64) verdict {
	at := o.live.at()
	v := r.readLive(o, at, buf, size)
	if v.errno == 0 {
		o.live.set(at + v.val)
	}
	return v
}

// readLive reads from a position.
func (r *receiver) readLive(o *object, at int64, buf, size uint64) verdict {
	content, err := o.live.read(o.node, at)
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

// read is the content for a read from a position.
func (f *liveFile) read(n *tree.Node, at int64) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at == 0 || f.content == nil {
		content, err := n.Content()
		if err != nil {
			return nil, err
		}
		f.content = content
	}
	return f.content, nil
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
	path, ours := strings.CutPrefix(link, "/memfd:"+filePrefix)
	if !ours {
		return nil
	}
	n, err := r.s.cfg.Host.Tree().Lookup(strings.TrimSuffix(path, " (deleted)"), false)
	if err != nil || n == nil || n.Kind != tree.File {
		return nil
	}
	return n
}
