package backtrace

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A program that is hostile to gorxe run, which may have more rights, can map any file, and replace
// its own. Opening some devices has an effect, and opening a FIFO blocks.

var errNotMapped = errors.New("it is not a regular file, or not the one that was mapped")

// openMapped opens the file of a mapping. inode is that of the file; 0: it is not known.
func openMapped(path string, inode uint64) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // it has nothing to write
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || inode != 0 && st.Ino != inode {
		return nil, errNotMapped
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(fd))
}

// readable reports whether elf.NewFile can read a file without taking much memory. It reads the
// headers of all sections, and their names, however large they say to be.
func readable(file io.ReaderAt) bool {
	var h elf.Header64
	if err := binary.Read(io.NewSectionReader(file, 0, int64(binary.Size(h))), binary.LittleEndian, &h); err != nil {
		return false
	}
	if string(h.Ident[:4]) != elf.ELFMAG || h.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64) || h.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB) ||
		h.Machine != uint16(elf.EM_X86_64) || h.Shnum == 0 || h.Shnum > mostSections || h.Shstrndx >= h.Shnum || h.Shoff > math.MaxInt64/2 {
		return false
	}
	var names elf.Section64
	at := int64(h.Shoff) + int64(h.Shstrndx)*int64(h.Shentsize)
	err := binary.Read(io.NewSectionReader(file, at, int64(binary.Size(names))), binary.LittleEndian, &names)
	return err == nil && names.Size <= mostNames
}

// take takes the sections of a file that f chooses off what is left, if they have at most so many
// bytes together, and reports whether it did.
func take(file *elf.File, left *uint64, chosen func(*elf.Section) bool) bool {
	n := *left
	for _, s := range file.Sections {
		if s.Type == elf.SHT_NOBITS || !chosen(s) {
			continue
		}
		if s.Size > n || s.FileSize > n {
			return false
		}
		n -= s.Size
	}
	*left = n
	return true
}
