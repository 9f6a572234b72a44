package procmaps

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// line writes a mapping as the kernel does (show_map_vma).
func line(m *Mapping) string {
	s := fmt.Sprintf("%08x-%08x %s %08x %02x:%02x %d ", m.Start, m.End, m.Rights, m.Offset, m.Major, m.Minor, m.Inode)
	if m.Path != "" {
		s = fmt.Sprintf("%-73s%s", s, m.Path)
	}
	return s
}

// TestThisProcess: what the kernel says of this process, and no more, is in the mappings.
func TestThisProcess(t *testing.T) {
	const name = "a name\nof two lines  "
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, make([]byte, 2<<12), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 1<<12, 1<<12, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b) //nolint:errcheck // it is mapped
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	file := File{unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino}
	for _, suffix := range []string{"", " (deleted)"} {
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		var again strings.Builder
		found := 0
		for m, err := range Read(bytes.NewReader(text)) {
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintln(&again, line(&m))
			if m.Path == strings.ReplaceAll(path, "\n", `\012`)+suffix {
				found++
				if m.Offset != 1<<12 || m.End-m.Start != 1<<12 || m.File != file || !m.Readable() || !m.Writable() || m.Executable() || !m.Shared() || m.Line != line(&m) {
					t.Errorf("%+v, want file %+v", m, file)
				}
			}
		}
		if again.String() != string(text) || found != 1 {
			t.Errorf("%d mappings of the file. The kernel says\n%s\nand the mappings are\n%s", found, text, again.String())
		}
		if suffix == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const good = "7f0000000000-7f0000002000 rw-s 00001000 00:01 77 /memfd:x (deleted)"

// TestMalformed: a line that the kernel does not write is an error, and the next one is read.
func TestMalformed(t *testing.T) {
	for _, bad := range []string{
		"", " ", "malformed",
		"7f00-8000 rw-s 0 0:0",
		"8000-7f00 rw-s 0 0:0 1 /x",
		"8000-8000 rw-s 0 0:0 1 /x",
		"7f00 rw-s 0 0:0 1 /x",
		"x-y rw-s 0 0:0 1 /x",
		"7f00-10000000000000000 rw-s 0 0:0 1 /x",
		"7f00-8000 rw- 0 0:0 1 /x",
		"7f00-8000 rw-sp 0 0:0 1 /x",
		"7f00-8000 rw-s z 0:0 1 /x",
		"7f00-8000 rw-s 0 00 1 /x",
		"7f00-8000 rw-s 0 0:100000000 1 /x",
		"7f00-8000 rw-s 0 0:0 -1 /x",
		"7f00-8000  rw-s 0 0:0 1 /x",
	} {
		var got []string
		for m, err := range Read(strings.NewReader(bad + "\n" + good + "\n")) {
			got = append(got, fmt.Sprint(m.Inode, " ", err == nil))
		}
		if len(got) != 2 || !strings.HasSuffix(got[0], "false") || got[1] != "77 true" {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

// TestEnd: a list ends with an error if it cannot be read further.
func TestEnd(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		text string
		want error
	}{
		{strings.Repeat("z", 1<<17) + "\n" + good, nil},
		{good + "\n", broken},
	} {
		r := iotest.DataErrReader(strings.NewReader(c.text))
		if c.want != nil {
			r = iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(c.text)))
		}
		var last error
		n := 0
		for _, err := range Read(r) {
			n, last = n+1, err
		}
		if n > 2 || last == nil {
			t.Errorf("%.40q: %d mappings, then %v", c.text, n, last)
		}
	}
}

// FuzzRead: a mapping is what a line of the kernel says, and a part of a line is not another one.
func FuzzRead(f *testing.F) {
	f.Add(good + "\n00400000-00401000 r-xp 00000000 08:01 1 /bin/x\n7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n")
	f.Add("7f00-8000 rw-s 0 0:0 0 x\n- s\n")
	f.Add("7f00-8000 ---p 0 0:0 18446744073709551615 \\012  (deleted)")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for m, err := range Read(strings.NewReader(text)) {
			n++
			if err != nil {
				continue
			}
			if m.Start >= m.End || strings.ContainsRune(m.Path, '\n') {
				t.Errorf("%+v", m)
			}
			again, ok := parse(line(&m))
			if again.Line = m.Line; !ok || again != m {
				t.Errorf("%+v is %+v, %t, once more", m, again, ok)
			}
		}
		if most := strings.Count(text, "\n") + 1; n > most {
			t.Errorf("%d mappings in %d lines", n, most)
		}
	})
}
