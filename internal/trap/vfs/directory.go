package vfs

import (
	"encoding/binary"
	"sync"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"golang.org/x/sys/unix"
)

// Directory is an open directory of the tree: what it contained when it was
// opened, and how far it was read. In the program it is an empty memfd; a
// directory of ours would lead the program out of its own root through "..".
type Directory struct {
	entries  []tree.Entry // "." and ".." first
	Position              // the index of the next entry
}

// Position is how far something was read.
type Position struct {
	mu  sync.Mutex
	pos int64
}

// NewDirectory opens a directory.
func NewDirectory(n *tree.Node) *Directory {
	d := &Directory{entries: []tree.Entry{
		{Name: ".", Kind: tree.Dir, Ino: n.Ino},
		{Name: "..", Kind: tree.Dir, Ino: 1},
	}}
	d.entries = append(d.entries, n.Entries()...)
	return d
}

// Lseek sets the position: 0 to rewind, or what getdents said of an entry. There is
// no end to count from (fs/seq_file.c: seq_lseek).
func (p *Position) Lseek(offset int64, whence int32) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch whence {
	case unix.SEEK_SET:
	case unix.SEEK_CUR:
		offset += p.pos
	default:
		return 0, unix.EINVAL
	}
	if offset < 0 {
		return 0, unix.EINVAL
	}
	p.pos = offset
	return offset, nil
}

// At returns the position.
func (p *Position) At() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pos
}

// Set sets the position.
func (p *Position) Set(pos int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pos = pos
}

// A DirentForm is one of the two layouts of directory entries.
type DirentForm uint8

const (
	Dirent64  DirentForm = iota // struct linux_dirent64
	OldDirent                   // struct linux_dirent, with 8-byte longs
)

const direntAlign = 8 // of struct linux_dirent64

// size returns the length of the entry for a name. A struct linux_dirent64 has inode and offset (16
// bytes), the length, the type, the name and a zero byte.
func (f DirentForm) size(name string) int {
	return (8 + 8 + 2 + 1 + len(name) + 1 + direntAlign - 1) &^ (direntAlign - 1)
}

// put appends an entry; next is the position behind it.
func (f DirentForm) put(b []byte, e *tree.Entry, next int64) []byte {
	size := f.size(e.Name)
	start := len(b)
	b = binary.NativeEndian.AppendUint64(b, e.Ino)
	b = binary.NativeEndian.AppendUint64(b, uint64(next))
	b = binary.NativeEndian.AppendUint16(b, uint16(size))
	if f == Dirent64 {
		b = append(b, e.Kind.DirentType())
	}
	b = append(b, e.Name...)
	for len(b) < start+size {
		b = append(b, 0)
	}
	if f == OldDirent {
		b[start+size-1] = e.Kind.DirentType()
	}
	return b
}

// List is what getdents writes from position pos on into size bytes, and the
// position after it. Nothing at the end; EINVAL if not even one entry fits.
func (d *Directory) List(f DirentForm, pos int64, size int) ([]byte, int64, error) {
	var b []byte
	for ; pos < int64(len(d.entries)); pos++ {
		e := &d.entries[pos]
		if len(b)+f.size(e.Name) > size {
			if len(b) == 0 {
				return nil, pos, unix.EINVAL
			}
			break
		}
		b = f.put(b, e, pos+1)
	}
	return b, pos, nil
}
