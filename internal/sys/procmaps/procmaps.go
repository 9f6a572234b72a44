// Package procmaps parses /proc/PID/maps, the list of a process's mappings. A process chooses the
// names of its files and may be hostile. The package opens no file.
package procmaps

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Mapping is a line of the list (proc_pid_maps(5); fs/proc/task_mmu.c: show_map_vma).
type Mapping struct {
	Start, End uint64 // addresses, Start < End
	Offset     uint64 // of Start in the file
	// four letters: r, w, x, or - for each that it lacks; s (shared) or p (private)
	Rights string
	File
	// Path is empty or in brackets if no file is mapped. It is as the kernel writes it: \012 stands
	// for a newline, and " (deleted)" follows the path of a file that has no name any more.
	Path string
	Line string // the line, without the newline that ends it
}

// File identifies a mapped file; Inode 0: there is none.
type File struct {
	Major, Minor uint32 // of the device
	Inode        uint64
}

// Readable, Writable, Executable and Shared say which rights there are.
func (m *Mapping) Readable() bool   { return m.Rights[0] == 'r' }
func (m *Mapping) Writable() bool   { return m.Rights[1] == 'w' }
func (m *Mapping) Executable() bool { return m.Rights[2] == 'x' }
func (m *Mapping) Shared() bool     { return m.Rights[3] == 's' }

// Read returns the mappings of a list, in its order. An error for a line that the kernel does not
// write does not end the sequence; an error of r, or a line of more than bufio.MaxScanTokenSize
// bytes, does.
func Read(r io.Reader) iter.Seq2[Mapping, error] {
	return func(yield func(Mapping, error) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			m, ok := parse(lines.Text())
			var err error
			if !ok {
				err = fmt.Errorf("/proc/PID/maps: %q", lines.Text())
			}
			if !yield(m, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Mapping{}, err)
		}
	}
}

// parse parses a line: one space stands between its fields, more of them before the path.
func parse(line string) (m Mapping, ok bool) {
	const path = 5 // it may contain spaces
	f := strings.SplitN(line, " ", path+1)
	if len(f) < path {
		return m, false
	}
	start, end, _ := strings.Cut(f[0], "-")
	major, minor, _ := strings.Cut(f[3], ":")
	ok = len(f[1]) == len("rwxp")
	number := func(text string, base, bits int) uint64 {
		n, err := strconv.ParseUint(text, base, bits)
		ok = ok && err == nil
		return n
	}
	m = Mapping{Line: line,
		Start: number(start, 16, 64), End: number(end, 16, 64), Offset: number(f[2], 16, 64), Rights: f[1],
		File: File{Major: uint32(number(major, 16, 32)), Minor: uint32(number(minor, 16, 32)), Inode: number(f[4], 10, 64)},
	}
	if len(f) > path {
		m.Path = strings.TrimLeft(f[path], " ")
	}
	return m, ok && m.Start < m.End
}
