package trap

import (
	"encoding/binary"
	"sync"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"golang.org/x/sys/unix"
)

// directory is an open directory of the tree: what it contained when it was
// opened, and how far it was read. In the program it is an empty memfd; a
// directory of ours would lead the program out of its own root through "..".
type directory struct {
	entries  []tree.Entry // "." and ".." first
	position              // the index of the next entry
}

// position is how far something was read.
type position struct {
	mu  sync.Mutex
	pos int64
}

func newDirectory(n *tree.Node) *directory {
	d := &directory{entries: []tree.Entry{
		{Name: ".", Kind: tree.Dir, Ino: n.Ino},
		{Name: "..", Kind: tree.Dir, Ino: 1},
	}}
	d.entries = append(d.entries, n.Entries()...)
	return d
}

func (r *receiver) openDir(n *tree.Node, cloexec bool) verdict {
	fd, err := readOnly("gorxe-dir", nil)
	if err != nil {
		r.s.log.Error("a directory cannot be opened for the program", "path", n.Path, "error", err)
		return fail(unix.ENFILE)
	}
	return r.give(&object{node: n, dir: newDirectory(n)}, fd, cloexec)
}

// seek sets the position: 0 to rewind, or what getdents said of an entry. There is
// no end to count from (fs/seq_file.c: seq_lseek).
func (p *position) seek(offset int64, whence int32) (int64, error) {
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

func (p *position) at() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pos
}

func (p *position) set(pos int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pos = pos
}

// direntForm is one of the two layouts of directory entries.
type direntForm uint8

const (
	dirent64  direntForm = iota // struct linux_dirent64
	oldDirent                   // struct linux_dirent, with 8-byte longs
)

const (
	direntAlign = 8
	// direntChunk bounds what one call writes: a page, whatever buffer there is.
	direntChunk = 32 << 10
)

// size returns the length of the entry for a name. It has inode and offset (16 bytes), the
// length, the type, the name and a zero byte.
func (f direntForm) size(name string) int {
	return (8 + 8 + 2 + 1 + len(name) + 1 + direntAlign - 1) &^ (direntAlign - 1)
}

// put appends an entry; next is the position behind it.
func (f direntForm) put(b []byte, e *tree.Entry, next int64) []byte {
	size := f.size(e.Name)
	start := len(b)
	b = binary.NativeEndian.AppendUint64(b, e.Ino)
	b = binary.NativeEndian.AppendUint64(b, uint64(next))
	b = binary.NativeEndian.AppendUint16(b, uint16(size))
	if f == dirent64 {
		b = append(b, e.Kind.DirentType())
	}
	b = append(b, e.Name...)
	for len(b) < start+size {
		b = append(b, 0)
	}
	if f == oldDirent {
		b[start+size-1] = e.Kind.DirentType()
	}
	return b
}

// list is what getdents writes from position pos on into size bytes, and the
// position after it. Nothing at the end; EINVAL if not even one entry fits.
func (d *directory) list(f direntForm, pos int64, size int) ([]byte, int64, error) {
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

// getdents answers getdents and getdents64.
func (r *receiver) getdents(f direntForm) verdict {
	o := r.object(r.fd(0))
	switch {
	case o == nil:
		return pass
	case o.dir == nil:
		return fail(unix.ENOTDIR)
	}
	d := o.dir
	pos := d.at()
	b, next, err := d.list(f, pos, int(min(uint64(uint32(r.arg(2))), direntChunk)))
	if err != nil {
		return failed(err)
	}
	// No lock here: the program's memory may not answer.
	if v := r.store(r.arg(1), b); v.errno != 0 {
		return v
	}
	d.set(next)
	return value(int64(len(b)))
}
