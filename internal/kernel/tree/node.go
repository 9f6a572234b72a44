package tree

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what a Node is.
type Kind uint8

const (
	Dir Kind = iota
	File
	Link
	CharDev
	Socket // of no tree: a program has it open
)

// String names k.
func (k Kind) String() string {
	switch k {
	case Dir:
		return "directory"
	case File:
		return "file"
	case Link:
		return "link"
	case CharDev:
		return "character device"
	case Socket:
		return "socket"
	default:
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
}

// format is the S_IFMT bits of k.
func (k Kind) format() uint32 {
	switch k {
	case Dir:
		return unix.S_IFDIR
	case Link:
		return unix.S_IFLNK
	case CharDev:
		return unix.S_IFCHR
	case Socket:
		return unix.S_IFSOCK
	default:
		return unix.S_IFREG
	}
}

// DirentType is the d_type of k in a directory listing.
func (k Kind) DirentType() uint8 { return uint8(k.format() >> 12) }

// Node is one file, directory, link or device of a [Tree]. It is immutable. Modes are those of
// the kernel, which lets root write some files. Here only a CharDev can be written. The
// caller must refuse any other open for writing with EACCES.
type Node struct {
	Path string // where it is: absolute, without links
	Kind Kind
	Mode uint32 // S_IFMT and permission bits
	Ino  uint64
	Rdev uint64 // of a CharDev
	UID  uint32 // the owner; the group is root

	// DeviceName is the RDMA device that a CharDev opens, as rxe0; Device is its
	// place in New's list. A CharFile has no name, and -1.
	DeviceName string
	Device     int

	// Live marks a counter: programs keep such a File open, and read it again from the start
	// to get its current value.
	Live bool

	mtime    time.Time
	target   string
	leads    string // of a Link whose target is not relative to Path: where it points
	read     func() (string, error)
	children []Entry // of a Dir
	table    *table  // of a Dir: more children, by number
}

// Entry is one line of a directory.
type Entry struct {
	Name string
	Kind Kind
	Ino  uint64
}

// table has a directory's numbered files, 0 to n-1. A device has some three thousand, so each
// is made when a program looks it up.
type table struct {
	n    int
	read func(i int) (string, error)
}

// attributeSize is the size that stat reports for every sysfs attribute, whatever its
// contents (fs/sysfs/file.c, sysfs_add_file_mode_ns: PAGE_SIZE).
const attributeSize = 4096

// Stat has the results of stat(2) for a node, except st_dev: the caller chooses the mount.
// The group is root.
type Stat struct {
	UID   uint32
	Ino   uint64
	Mode  uint32
	Nlink uint32
	Rdev  uint64
	Size  int64
	Mtime time.Time // ctime and atime too
}

// Stat describes n.
func (n *Node) Stat() Stat {
	s := Stat{UID: n.UID, Ino: n.Ino, Mode: n.Mode, Nlink: 1, Rdev: n.Rdev, Mtime: n.mtime}
	switch n.Kind {
	case Dir:
		s.Nlink = 2
		for _, e := range n.children {
			if e.Kind == Dir {
				s.Nlink++
			}
		}
	case File:
		s.Size = attributeSize
	case Link, CharDev, Socket:
	}
	return s
}

// Content returns what a read of a File returns now, or the errno of the kernel's attribute:
// EINVAL for the gid_attrs of an empty GID. Such a File can still be opened.
func (n *Node) Content() ([]byte, error) {
	switch n.Kind {
	case Dir:
		return nil, unix.EISDIR
	case File:
		s, err := n.read()
		return []byte(s), err
	default:
		return nil, unix.EINVAL
	}
}

// IsRDMACM reports whether n is the device that librdmacm opens.
func (n *Node) IsRDMACM() bool { return n.Kind == CharDev && n.Path == "/dev/infiniband/"+rdmaCM }

// umadPrefix begins the names of the devices that libibumad opens.
const umadPrefix = "umad"

// IsUMAD reports whether n is a device that libibumad opens.
func (n *Node) IsUMAD() bool {
	return n.Kind == CharDev && strings.HasPrefix(n.Path, "/dev/infiniband/"+umadPrefix)
}

// Permits reports whether a process of user uid may open or access n in a way: bits of
// access(2). With override, the process has CAP_DAC_OVERRIDE (fs/namei.c: generic_permission).
func (n *Node) Permits(uid uint32, override bool, way uint32) bool {
	const read, write = 4, 2
	have := n.Mode & 7
	if uid == n.UID {
		have = n.Mode >> 6 & 7
	}
	if override {
		have |= n.Mode>>6&7 | read | write
	}
	return have&way == way
}

// Target is where a Link points, relative to its directory as in the kernel.
func (n *Node) Target() string { return n.target }

// Entries lists a Dir, without "." and "..".
func (n *Node) Entries() []Entry {
	entries := slices.Clone(n.children)
	if n.table == nil {
		return entries
	}
	entries = slices.Grow(entries, n.table.n)
	for i := range n.table.n {
		base := strconv.Itoa(i)
		entries = append(entries, Entry{Name: base, Kind: File, Ino: inode(n.Path + "/" + base)})
	}
	return entries
}

// numbered returns the table's file of that name, if there is one.
func (n *Node) numbered(base string) *Node {
	if n.table == nil {
		return nil
	}
	i, err := strconv.Atoi(base)
	if err != nil || i < 0 || i >= n.table.n || strconv.Itoa(i) != base {
		return nil
	}
	read := n.table.read
	return newNode(Node{
		Path: n.Path + "/" + base, Kind: File, Mode: 0o444, mtime: n.mtime,
		read: func() (string, error) { return read(i) },
	})
}

// newNode completes a node: permission bits get their type, and the path gives
// the inode number.
func newNode(n Node) *Node {
	n.Mode |= n.Kind.format()
	n.Ino = inode(n.Path)
	return &n
}

// NewSocket describes a socket, which is in no tree. Its owner and its time are not known.
func NewSocket(ino uint64) *Node {
	return &Node{Path: "socket:[" + strconv.FormatUint(ino, 10) + "]", Kind: Socket, Mode: unix.S_IFSOCK | 0o777, Ino: ino}
}

// inode returns the inode number of a path. It is the same in every Tree, because programs may
// compare files before and after a change of devices.
func inode(path string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(path)) //nolint:errcheck // never fails
	return h.Sum64()>>16 | 1
}
