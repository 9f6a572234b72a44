package tree

import (
	"bytes"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree is the file tree. It is immutable, but the contents of a file are made for each read.
// Several goroutines may call its methods, with any string.
type Tree struct {
	nodes   map[string]*Node // by Path; tables' files are not in it
	parents []string         // of the devices, and their drivers
	above   map[string]bool  // see Above
	pci     bool             // it has devices on that bus
}

// Character devices' numbers (drivers/infiniband/core/uverbs_main.c,
// IB_UVERBS_MAJOR and IB_UVERBS_BASE_MINOR). umad has the same major number.
const (
	uverbsMajor     = 231
	uverbsBaseMinor = 192
	umadBaseMinor   = 0 // drivers/infiniband/core/user_mad.c, IB_UMAD_MINOR_BASE
)

// majorPrefixes begin the names under which udev and the kernel list devices of
// that major number.
var majorPrefixes = [...]string{"/dev/char/231:", "/sys/dev/char/231:"}

// hostDirs are the host's directories above every tree.
var hostDirs = map[string]bool{
	"/": true, "/dev": true, "/dev/char": true,
	"/sys": true, "/sys/class": true, "/sys/dev": true, "/sys/dev/char": true,
	"/sys/devices": true, "/sys/devices/virtual": true, "/sys/bus": true,
	classMisc: true, devicesMisc: true,
}

// Above reports whether a clean path is one of the host's directories above the tree. Links
// between the tree's directories pass through them. They are not links themselves.
func (t *Tree) Above(p string) bool { return t.above[p] }

// deviceTrees are the directories of /sys that lead to devices. Elsewhere, a control group or
// a module may have any name.
var deviceTrees = map[string]bool{"bus": true, "class": true, "dev": true, "devices": true}

// Owns reports whether an absolute path is, after lexical cleaning, in the part of the file
// system that the tree represents. There the tree has the answer, and the host's files are
// hidden. These paths, with all that is below them, belong to the tree:
//
//   - /dev/infiniband, and the links of /dev/char and /sys/dev/char to the uverbs major
//     number
//   - rdma_cm of class misc
//   - anywhere in /sys, names that are infiniband or begin with infiniband_: the classes, and
//     the directories where PCI devices keep their RDMA devices
//   - the parents of the tree's devices, with their driver, and the root of their bus if that is
//     PCI. Their network interfaces name them
//
// The directory /sys/bus/pci/devices is the tree's if it has devices there, but what is in it
// beside them is the host's.
func (t *Tree) Owns(p string) bool {
	if !strings.HasPrefix(p, "/") {
		return false
	}
	return t.owned(path.Clean(p))
}

// owned is Owns for clean paths.
func (t *Tree) owned(p string) bool {
	if below(p, "/dev/infiniband") {
		return true
	}
	for _, prefix := range majorPrefixes {
		if strings.HasPrefix(p, prefix) {
			return true
		}
	}
	rest, ok := strings.CutPrefix(p, "/sys/")
	if !ok {
		return false
	}
	if below(p, classMisc+"/"+rdmaCM) || below(p, devicesMisc+"/"+rdmaCM) || t.pci && p == pciDevices {
		return true
	}
	for _, dir := range t.parents {
		if below(p, dir) {
			return true
		}
	}
	top, rest, _ := strings.Cut(rest, "/")
	if !deviceTrees[top] {
		return false
	}
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if name == "infiniband" || strings.HasPrefix(name, "infiniband_") {
			return true
		}
	}
	return false
}

// HasPCI reports whether a path may lead to the tree's devices on the PCI bus, as one of NCCL does
// that is elsewhere after lexical cleaning: /sys/class/pci_bus/BUS/../../DEVICE.
func (t *Tree) HasPCI(p []byte) bool { return t.pci && bytes.Contains(p, []byte("pci")) }

// below reports whether p is dir or in it.
func below(p, dir string) bool {
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}

// Lookup returns the node at an absolute path, as stat does with follow and
// lstat without. Links on the way are always followed, and so is the last one
// before a trailing slash. Errors are ENOENT, ENOTDIR, ELOOP and ENAMETOOLONG. A
// path outside the tree, or one that leaves it, gives ENOENT.
func (t *Tree) Lookup(p string, follow bool) (*Node, error) {
	n, outside, err := t.Walk(p, follow)
	if err == nil && outside != "" {
		return nil, unix.ENOENT
	}
	return n, err
}

// Limits of path resolution (include/linux/namei.h, MAXSYMLINKS; PATH_MAX).
const (
	maxLinks = 40
	maxPath  = 4096
	maxName  = 255
)

// Walk resolves a path as the kernel does, component by component: ".." after a link is the
// parent of the link's target. A walk that comes to a file of the host ends there. outside is
// then the rest of the path, absolute but not clean. Walk assumes that the directories above
// the tree are as on every Linux host.
func (t *Tree) Walk(p string, follow bool) (n *Node, outside string, err error) {
	if !strings.HasPrefix(p, "/") {
		return nil, "", unix.ENOENT
	}
	if len(p) >= maxPath {
		return nil, "", unix.ENAMETOOLONG
	}
	at, rest, links := "/", p, 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		last := rest == ""
		// A trailing slash, too, asks for a directory.
		wantDir := !last || strings.HasSuffix(p, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		if len(name) > maxName {
			return nil, "", unix.ENAMETOOLONG
		}
		next := path.Join(at, name)
		if !t.owned(next) {
			if !t.above[next] {
				return nil, next + slash(rest), nil
			}
			at = next
			continue
		}
		n := t.node(next)
		switch {
		case n == nil:
			return nil, "", unix.ENOENT
		case n.Kind == Link && (wantDir || follow):
			if links++; links > maxLinks {
				return nil, "", unix.ELOOP
			}
			rest = n.target + slash(rest)
			if n.leads != "" {
				at, rest = "/", n.leads+strings.TrimPrefix(rest, n.target)
			}
		case n.Kind != Dir && wantDir:
			return nil, "", unix.ENOTDIR
		default:
			at = next
		}
	}
	if !t.owned(at) {
		return nil, at, nil
	}
	return t.node(at), "", nil
}

func slash(rest string) string {
	if rest == "" {
		return ""
	}
	return "/" + rest
}

// node returns the node at a clean path, nil if there is none.
func (t *Tree) node(p string) *Node {
	if n := t.nodes[p]; n != nil {
		return n
	}
	dir, base := path.Split(p)
	if parent := t.nodes[strings.TrimSuffix(dir, "/")]; parent != nil {
		return parent.numbered(base)
	}
	return nil
}
