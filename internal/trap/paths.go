package trap

import (
	"bytes"
	"path"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/trap/procfs"
	"golang.org/x/sys/unix"
)

const (
	pathMax  = 4096 // with the zero
	userPage = 4096 // the least size of a page of memory
	// Most paths are shorter, and a read across a page may fail.
	pathChunk = 256
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

// origin is where relative paths begin.
type origin interface {
	// ourDir is the path of the tree's directory that a descriptor refers to.
	// Another object of ours is no directory: the error is ENOTDIR.
	ourDir(fd int32) (dir string, ours bool, err error)
	// hostDir is the path of the directory that a descriptor, or cwd, refers to,
	// as the program sees it.
	hostDir(fd int32) (string, error)
}

// absolute is the path that may lead into the tree, or "" if it cannot. The rules:
//
//   - an absolute path is looked at if it is the tree's after lexical cleaning, or
//     mentions it. Changed roots do not matter: the devices are there too.
//   - a relative path is looked at if it begins at a directory of ours, or mentions
//     the tree.
//
// All others are the kernel's, unread.
func absolute(t *tree.Tree, p []byte, dirfd int32, from origin) (string, error) {
	if len(p) == 0 {
		return "", nil
	}
	if p[0] == '/' {
		// Owns does not keep the string.
		if mentions(p) || t.Owns(unsafe.String(&p[0], len(p))) {
			return string(p), nil
		}
		return "", nil
	}
	if dirfd != cwd {
		dir, ours, err := from.ourDir(dirfd)
		if err != nil {
			return "", err
		}
		if ours {
			return dir + "/" + string(p), nil
		}
	}
	if !mentions(p) {
		return "", nil
	}
	dir, err := from.hostDir(dirfd)
	if err != nil || !strings.HasPrefix(dir, "/") {
		return "", nil // the kernel says what is wrong
	}
	return strings.TrimSuffix(dir, "/") + "/" + string(p), nil
}

// mentions tells whether a path has a part of a name that leads to the tree.
func mentions(p []byte) bool {
	return bytes.Contains(p, []byte("infiniband")) || bytes.Contains(p, []byte("rdma_cm")) ||
		bytes.Contains(p, []byte("231:"))
}

// above are the host's directories above the tree. They are the same for all processes, so
// this process sees what the program would see.
var above = map[string]bool{
	"/": true, "/dev": true, "/dev/char": true, "/sys": true, "/sys/class": true, "/sys/class/misc": true,
	"/sys/dev": true, "/sys/dev/char": true, "/sys/devices": true, "/sys/devices/virtual": true,
	"/sys/devices/platform": true, "/sys/bus": true, "/sys/bus/platform": true, "/sys/bus/platform/drivers": true,
}

// lookup finds the node that a path names. If it returns neither a node nor an error, the
// kernel executes the call. outside is then one of the directories above, if the path leads
// there through the tree, where the kernel cannot follow.
func lookup(t *tree.Tree, p []byte, dirfd int32, follow bool, from origin) (n *tree.Node, outside string, err error) {
	abs, err := absolute(t, p, dirfd, from)
	if abs == "" || err != nil {
		return nil, "", err
	}
	n, outside, err = t.Walk(abs, follow)
	if outside == "" {
		return n, "", err
	}
	if outside = path.Clean(outside); above[outside] && through(t, abs) {
		return nil, outside, nil
	}
	// What begins elsewhere is the kernel's to follow.
	if t.Owns(path.Clean(abs)) {
		return nil, "", unix.ENOENT
	}
	return nil, "", nil
}

// through tells whether a path passes through a directory of the tree.
func through(t *tree.Tree, abs string) bool {
	for i := 1; i < len(abs); i++ {
		if abs[i] == '/' && t.Owns(abs[:i]) {
			return true
		}
	}
	return false
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
	n, outside, err := lookup(r.s.cfg.Host.Tree(), p, dirfd, follow, r)
	if err != nil {
		return nil, failed(err)
	}
	return n, verdict{above: outside}
}

func (r *receiver) ourDir(fd int32) (string, bool, error) {
	o := r.object(fd)
	if o == nil {
		return "", false, nil
	}
	if o.node.Kind != tree.Dir {
		return "", false, unix.ENOTDIR
	}
	return o.node.Path, true, nil
}

func (r *receiver) hostDir(fd int32) (string, error) {
	proc := "/proc/" + strconv.Itoa(r.thread())
	link := proc + "/cwd"
	if fd != cwd {
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
