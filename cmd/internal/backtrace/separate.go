package backtrace

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path/filepath"
)

// debugDir is where distributions put debug information.
const debugDir = "/usr/lib/debug"

// noteHeader is the size of an ELF note with the name GNU, before what it says.
const noteHeader = 16

// separate reads the debug information that was taken out of an image (objcopy(1),
// --only-keep-debug). The file that has it has the same build ID.
func (n *namer) separate(im *image, f *elf.File) {
	id := buildID(f)
	if len(id) == 0 {
		return
	}
	list := []string{filepath.Join(debugDir, ".build-id", fmt.Sprintf("%02x", id[0]), fmt.Sprintf("%x.debug", id[1:]))}
	if link, _, ok := bytes.Cut(section(f, ".gnu_debuglink"), []byte{0}); ok && filepath.Base(string(link)) == string(link) {
		dir, name := filepath.Dir(im.path), string(link)
		list = append(list, filepath.Join(dir, name), filepath.Join(dir, ".debug", name), filepath.Join(debugDir, dir, name))
	}
	for _, path := range list {
		if n.separateIn(im, path, id) {
			return
		}
	}
}

func (n *namer) separateIn(im *image, path string, id []byte) bool {
	file, err := openMapped(path, 0)
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // it was only read
	if !readable(file) {
		return false
	}
	f, err := elf.NewFile(file)
	if err != nil || !bytes.Equal(buildID(f), id) {
		return false
	}
	n.describes(im, f)
	return true
}

func buildID(f *elf.File) []byte {
	note := section(f, ".note.gnu.build-id")
	if len(note) <= noteHeader {
		return nil
	}
	return note[noteHeader:]
}

// section returns a small section; nil: there is none.
func section(f *elf.File, name string) []byte {
	s := f.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || max(s.Size, s.FileSize) > mostName {
		return nil
	}
	data, _ := s.Data() // without it, there is no debug information
	return data
}
