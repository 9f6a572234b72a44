package vfs

import (
	"bytes"
	"path"
	"strings"
	"unsafe"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"golang.org/x/sys/unix"
)

// CWD stands for the current directory.
const CWD = unix.AT_FDCWD

// Origin is where relative paths begin.
type Origin interface {
	// OurDir is the path of the tree's directory that a descriptor refers to.
	// Another object of ours is no directory: the error is ENOTDIR.
	OurDir(fd int32) (dir string, ours bool, err error)
	// HostDir is the path of the directory that a descriptor, or CWD, refers to,
	// as the program sees it.
	HostDir(fd int32) (string, error)
}

// absolute is the path that may lead into the tree, or "" if it cannot. The rules:
//
//   - an absolute path is looked at if it is the tree's after lexical cleaning, or
//     mentions it. Changed roots do not matter: the devices are there too.
//   - a relative path is looked at if it begins at a directory of ours, or mentions
//     the tree.
//
// All others are the kernel's, unread.
func absolute(t *tree.Tree, p []byte, dirfd int32, from Origin) (string, error) {
	if len(p) == 0 {
		return "", nil
	}
	if p[0] == '/' {
		// Owns does not keep the string.
		if mentions(p) || t.HasPCI(p) || t.Owns(unsafe.String(&p[0], len(p))) {
			return string(p), nil
		}
		return "", nil
	}
	if dirfd != CWD {
		dir, ours, err := from.OurDir(dirfd)
		if err != nil {
			return "", err
		}
		if ours {
			return dir + "/" + string(p), nil
		}
	}
	if !mentions(p) && !t.HasPCI(p) {
		return "", nil
	}
	dir, err := from.HostDir(dirfd)
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

// Lookup finds the node that a path names. If it returns neither a node nor an error, the kernel
// executes the call. outside is then one of the host's directories above the tree, if the path
// leads there through the tree, where the kernel cannot follow. They are the same for all
// processes, so this process sees what the program would see.
func Lookup(t *tree.Tree, p []byte, dirfd int32, follow bool, from Origin) (n *tree.Node, outside string, err error) {
	abs, err := absolute(t, p, dirfd, from)
	if abs == "" || err != nil {
		return nil, "", err
	}
	n, outside, err = t.Walk(abs, follow)
	if outside == "" {
		return n, "", err
	}
	if outside = path.Clean(outside); t.Above(outside) && through(t, abs) {
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
