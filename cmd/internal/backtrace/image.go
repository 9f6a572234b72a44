package backtrace

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// image is a program or a library.
type image struct {
	name    string
	path    string
	inode   uint64
	loads   []elf.ProgHeader
	frames  frame.FrameDescriptionEntries
	symbols []elf.Symbol // functions, by their addresses
	lines   *dwarf.Data  // nil: it has none
}

// open reads an image; nil: it cannot be read.
func (n *namer) open(path string, inode uint64) *image {
	file, err := openMapped(path, inode)
	if err != nil {
		return nil
	}
	defer file.Close() //nolint:errcheck // it was only read
	if !readable(file) {
		return nil
	}
	f, err := elf.NewFile(file)
	if err != nil {
		return nil
	}
	im := &image{name: filepath.Base(path), path: path, inode: inode}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			im.loads = append(im.loads, p.ProgHeader)
		}
	}
	if s := f.Section(".eh_frame"); s != nil && take(f, &n.left.unwind, func(x *elf.Section) bool { return x == s }) {
		if data, err := s.Data(); err == nil {
			// without it, stacks end here
			im.frames, _ = frame.Parse(data, f.ByteOrder, 0, 8, s.Addr)
			slices.SortFunc(im.frames, func(a, b *frame.FrameDescriptionEntry) int { return cmp.Compare(a.Begin(), b.Begin()) })
		}
	}
	n.describes(im, f)
	if im.lines == nil && !isBelow(im.name) { // of libraries below, the verb is enough
		n.separate(im, f)
	}
	slices.SortStableFunc(im.symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return im
}

// describes reads the symbols and the debug information of a file into an image.
func (n *namer) describes(im *image, f *elf.File) {
	tables := []func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols}
	if !take(f, &n.left.symbols, isSymbols) {
		tables = nil
	}
	for _, table := range tables {
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
	if f.Section(".debug_info") != nil && !slices.ContainsFunc(f.Sections, isPacked) && take(f, &n.left.debug, isDebug) {
		im.lines, _ = f.DWARF() // without it, functions have offsets
	}
}

func isSymbols(s *elf.Section) bool {
	switch s.Type {
	case elf.SHT_SYMTAB, elf.SHT_DYNSYM, elf.SHT_STRTAB, elf.SHT_GNU_VERSYM, elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERDEF:
		return true
	default:
		return false
	}
}

func isDebug(s *elf.Section) bool {
	return s.Type != elf.SHT_NOBITS && strings.HasPrefix(s.Name, ".debug_")
}

// isPacked reports whether a section has an old form of compression, which does not say how long it
// is before it is opened.
func isPacked(s *elf.Section) bool { return strings.HasPrefix(s.Name, ".zdebug_") }

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
	f, err := openMapped(im.path, im.inode)
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
			f.Function, f.Offset = readableName(s.Name), address-s.Value
			break
		}
	}
	if im.lines == nil {
		return []sanitize.Frame{f}
	}
	return im.inlined(address, f)
}
