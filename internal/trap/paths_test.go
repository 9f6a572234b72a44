package trap

import (
	"encoding/binary"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"golang.org/x/sys/unix"
)

// places is an origin with two directories: 3900 of ours, 5 of the host.
type places struct{ ours, host, cwd string }

func (p places) ourDir(fd int32) (string, bool, error) {
	switch fd {
	case 3900:
		return p.ours, true, nil
	case 3901:
		return "", false, unix.ENOTDIR
	default:
		return "", false, nil
	}
}

func (p places) hostDir(fd int32) (string, error) {
	switch fd {
	case cwd:
		return p.cwd, nil
	case 5:
		return p.host, nil
	default:
		return "", unix.EBADF
	}
}

func TestLookup(t *testing.T) {
	files := newHost(t, "rxe0").tree
	at := places{ours: "/sys/class/infiniband_verbs", host: "/sys/class", cwd: "/dev"}
	const theKernel = "kernel"
	for _, tt := range []struct {
		path  string
		dirfd int32
		want  string // path of the node, theKernel or an errno
	}{
		{"/sys/class/infiniband_verbs", cwd, "/sys/class/infiniband_verbs"},
		{"/sys/class//infiniband_verbs/.", cwd, "/sys/class/infiniband_verbs"},
		{"/dev/infiniband/uverbs0", 5, "/dev/infiniband/uverbs0"},
		{"/dev/../dev/infiniband/uverbs0", cwd, "/dev/infiniband/uverbs0"},
		{"/dev/infiniband/uverbs1", cwd, "no such file or directory"},
		{"/dev/infiniband/uverbs0/x", cwd, "not a directory"},
		{"/dev/infiniband/rdma_cm", cwd, "no such file or directory"}, // the host's is hidden
		{"/sys/class/infiniband/mlx5_0", cwd, "no such file or directory"},
		{"/etc/passwd", cwd, theKernel},
		{"", cwd, theKernel},
		{"/", cwd, theKernel},
		{"/dev/infiniband/../null", cwd, theKernel},
		{"/dev/infiniband/..", cwd, "above: /dev"},
		{"/sys/class/infiniband/rxe0/../../..", cwd, "above: /sys/devices/platform"},
		{"/dev/infiniband/../..", cwd, "above: /"},
		{"/dev/../etc", cwd, theKernel},
		{"/dev/infiniband/../../root", cwd, theKernel},
		{"/opt/infiniband/lib", cwd, theKernel},
		{"/dev/infiniband2", cwd, theKernel},

		{"infiniband/uverbs0", cwd, "/dev/infiniband/uverbs0"},
		{"./infiniband/uverbs0", cwd, "/dev/infiniband/uverbs0"},
		{"infiniband/rxe0/node_type", 5, "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0/node_type"},
		{"infiniband", 6, theKernel}, // not open
		{"null", cwd, theKernel},
		{"uverbs0/ibdev", 3900, "/sys/devices/virtual/infiniband_verbs/uverbs0/ibdev"},
		{"abi_version", 3900, "/sys/class/infiniband_verbs/abi_version"},
		{"x", 3900, "no such file or directory"},
		{"../net/lo", 3900, theKernel}, // not there for the kernel either: the descriptor is a file
		{"../../../etc/passwd", 3900, theKernel},
		{"..", 3900, "above: /sys/class"},
		{"x", 3901, "not a directory"},
	} {
		got := theKernel
		n, outside, err := lookup(files, []byte(tt.path), tt.dirfd, true, at)
		switch {
		case outside != "":
			got = "above: " + outside
		case err != nil:
			got = err.Error()
		case n != nil:
			got = n.Path
		}
		if got != tt.want {
			t.Errorf("%d %q: %s, want %s", tt.dirfd, tt.path, got, tt.want)
		}
	}
}

// FuzzPath: a lookup never panics, finds nothing but the tree's own nodes, and
// leaves to the kernel every absolute path that is not the tree's.
func FuzzPath(f *testing.F) {
	for _, p := range []string{
		"/dev/infiniband/uverbs0", "/sys/class/infiniband/rxe0/ports/1/gids/0", "infiniband/../..", "../..", "/",
		"/sys/class/infiniband/rxe0/../../../../..", "\x00", "/dev/char/231:192", strings.Repeat("/..", 100),
	} {
		f.Add([]byte(p), "/sys/class", true)
		f.Add([]byte(p), "", false)
	}
	files := newHost(f, "rxe0").tree
	f.Fuzz(func(t *testing.T, p []byte, dir string, follow bool) {
		at := places{ours: "/sys/class/infiniband", host: dir, cwd: dir}
		for _, fd := range []int32{cwd, 5, 3900, 3901, -1} {
			n, outside, err := lookup(files, p, fd, follow, at)
			var errno unix.Errno
			if err != nil && !errors.As(err, &errno) {
				t.Errorf("%q: error %v is not an errno", p, err)
			}
			if outside != "" && (n != nil || err != nil || !above[outside]) {
				t.Errorf("%q leads out to %s with %v, %v", p, outside, n, err)
			}
			if n != nil && !files.Owns(n.Path) {
				t.Errorf("%q leads to %s", p, n.Path)
			}
			if len(p) > 0 && p[0] == '/' && !mentions(p) && !files.Owns(path.Clean(string(p))) && (n != nil || err != nil) {
				t.Errorf("%q is the kernel's: %v, %v", p, n, err)
			}
		}
	})
}

// entriesOf parses what getdents wrote.
func entriesOf(t *testing.T, f direntForm, b []byte) (entries []tree.Entry, last int64) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 24 {
			t.Fatalf("%d bytes left", len(b))
		}
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size%8 != 0 || size < 24 || size > len(b) {
			t.Fatalf("record of %d bytes in %d", size, len(b))
		}
		last = int64(binary.NativeEndian.Uint64(b[8:]))
		name, kind := b[19:size], b[18]
		if f == oldDirent {
			name, kind = b[18:size-1], b[size-1]
		}
		s, _, ok := strings.Cut(string(name), "\x00")
		if !ok {
			t.Fatalf("name %q does not end", name)
		}
		e := tree.Entry{Name: s, Ino: binary.NativeEndian.Uint64(b)}
		for _, k := range []tree.Kind{tree.Dir, tree.File, tree.Link, tree.CharDev} {
			if k.DirentType() == kind {
				e.Kind = k
			}
		}
		entries = append(entries, e)
		b = b[size:]
	}
	return entries, last
}

// FuzzGetdents: with any size of buffer, a loop reads each entry once, and a seek
// to what an entry says goes on behind it.
func FuzzGetdents(f *testing.F) {
	files := newHost(f, "rxe0").tree
	f.Add("/sys/class/infiniband_verbs", uint16(100), false)
	f.Add("/sys/class/infiniband/rxe0/ports/1/gids", uint16(1), true)
	f.Add("/sys/class/infiniband/rxe0/ports/1/gids", uint16(32768), true)
	f.Fuzz(func(t *testing.T, p string, size uint16, old bool) {
		n, err := files.Lookup(p, true)
		if err != nil || n.Kind != tree.Dir {
			return
		}
		form := dirent64
		if old {
			form = oldDirent
		}
		d := newDirectory(n)
		want := d.entries
		var got []tree.Entry
		for pos := int64(0); ; {
			b, next, err := d.list(form, pos, int(size))
			if err != nil {
				if need := form.size(want[pos].Name); err != unix.EINVAL || need <= int(size) {
					t.Fatalf("%v, with %d bytes for %d", err, size, need)
				}
				return
			}
			if len(b) == 0 {
				break
			}
			if len(b) > int(size) {
				t.Fatalf("%d bytes into %d", len(b), size)
			}
			part, last := entriesOf(t, form, b)
			if last != next {
				t.Fatalf("the last entry says %d, the position is %d", last, next)
			}
			got, pos = append(got, part...), next
		}
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	})
}
