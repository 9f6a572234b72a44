package trap

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/vfs"
	"golang.org/x/sys/unix"
)

const (
	pathMax  = 4096 // linux/limits.h: PATH_MAX, with the zero
	userPage = 4096 // the least size of a page of memory (asm/page.h)
)

// readPath reads the path that an argument points to. False leaves the answer to
// the kernel: it is not readable, or too long.
func (r *receiver) readPath(arg int) ([]byte, bool) {
	addr, n := r.arg(arg), 0
	for n < len(r.path) {
		at := addr + uint64(n)
		chunk := r.path[n:min(n+int(userPage-at%userPage), n+pathChunk, len(r.path))]
		if r.caller.peek(at, chunk) != nil {
			return nil, false
		}
		if i := bytes.IndexByte(chunk, 0); i >= 0 {
			return r.path[:n+i], true
		}
		n += len(chunk)
	}
	return nil, false
}

// named is the node that the path argument of the call in hand names; without a
// node, the verdict.
func (r *receiver) named(dirfd int32, arg int, follow bool) (*tree.Node, verdict) {
	p, ok := r.readPath(arg)
	if !ok {
		return nil, pass
	}
	return r.find(p, dirfd, follow)
}

func (r *receiver) find(p []byte, dirfd int32, follow bool) (*tree.Node, verdict) {
	n, outside, err := vfs.Lookup(r.s.cfg.Host.Tree(), p, dirfd, follow, r)
	if err != nil {
		return nil, failed(err)
	}
	return n, verdict{above: outside}
}

// OurDir implements vfs.Origin.
func (r *receiver) OurDir(fd int32) (string, bool, error) {
	o := r.object(fd)
	if o == nil {
		return "", false, nil
	}
	if o.node.Kind != tree.Dir {
		return "", false, unix.ENOTDIR
	}
	return o.node.Path, true, nil
}

// HostDir implements vfs.Origin.
func (r *receiver) HostDir(fd int32) (string, error) {
	proc := "/proc/" + strconv.Itoa(r.thread())
	link := proc + "/cwd"
	if fd != vfs.CWD {
		link = proc + "/fd/" + strconv.Itoa(int(fd))
	}
	dir, err := procfs.Readlink(link)
	if err != nil {
		return "", err
	}
	root, err := procfs.Readlink(proc + "/root")
	if err != nil || root == "/" {
		return dir, err
	}
	if rest, below := strings.CutPrefix(dir, root); below && (rest == "" || rest[0] == '/') {
		return "/" + strings.TrimPrefix(rest, "/"), nil
	}
	return dir, nil
}
