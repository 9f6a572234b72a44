package backtrace

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// image is a program or a library.
type image struct {
	name    string
	path    string
	loads   []elf.ProgHeader
	frames  frame.FrameDescriptionEntries
	symbols []elf.Symbol // functions, by their addresses
	lines   *dwarf.Data  // nil: it has none
}

// open reads an image; nil: it cannot be read.
func open(path string) *image {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return nil
	}
	im := &image{name: filepath.Base(path), path: path}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			im.loads = append(im.loads, p.ProgHeader)
		}
	}
	if s := f.Section(".eh_frame"); s != nil {
		if data, err := s.Data(); err == nil {
			// without it, stacks end here
			im.frames, _ = frame.Parse(data, f.ByteOrder, 0, 8, s.Addr)
			slices.SortFunc(im.frames, func(a, b *frame.FrameDescriptionEntry) int { return cmp.Compare(a.Begin(), b.Begin()) })
		}
	}
	for _, table := range []func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols} {
		list, err := table()
		if err != nil {
			continue
		}
		for _, s := range list {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value != 0 {
				im.symbols = append(im.symbols, s)
			}
		}
	}
	slices.SortStableFunc(im.symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	im.lines, _ = f.DWARF() // without it, functions have offsets
	return im
}

// address returns the address in the image of a byte of its file.
func (im *image) address(offset uint64) (uint64, bool) {
	for _, p := range im.loads {
		if p.Off <= offset && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// code returns n bytes at an address; nil: they cannot be read.
func (im *image) code(address uint64, n int) []byte {
	f, err := os.Open(im.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for _, p := range im.loads {
		if p.Vaddr <= address && address < p.Vaddr+p.Filesz {
			buf := make([]byte, n)
			if _, err := f.ReadAt(buf, int64(address-p.Vaddr+p.Off)); err == nil {
				return buf
			}
		}
	}
	return nil
}

// describe names what is at an address of the image: a function, and before it those that the
// compiler put into it.
func (im *image) describe(address uint64) []sanitize.Frame {
	f := sanitize.Frame{Module: im.name, Offset: address}
	i, _ := slices.BinarySearchFunc(im.symbols, address, func(s elf.Symbol, a uint64) int {
		if s.Value <= a {
			return -1
		}
		return 1
	})
	for i--; i >= 0 && address-im.symbols[i].Value < 1<<20; i-- {
		if s := &im.symbols[i]; address < s.Value+s.Size {
			f.Function, f.Offset = s.Name, address-s.Value
			break
		}
	}
	if im.lines == nil {
		return []sanitize.Frame{f}
	}
	return im.inlined(address, f)
}
