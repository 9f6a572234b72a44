package vfs

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"path"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// oneDevice returns a tree with the device rxe0.
func oneDevice() *tree.Tree {
	return tree.New([]tree.Device{{
		Name: "rxe0", NodeGUID: 0x0200_0000_0000_0001, SysImageGUID: 1, NodeDesc: "rxe", Netdev: "lo",
		Parent: tree.Parent{Dir: "platform/rxe0.gorxe", Bus: "platform", Driver: "gorxe"},
		Port: func() tree.PortInfo {
			return tree.PortInfo{
				State: 4, PhysState: 5, LinkLayer: 2, ActiveWidth: 1, ActiveSpeed: 1,
				GIDTableLen: 16, GIDs: []wire.GID{wire.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))}, PKeys: []uint16{0xffff},
			}
		},
	}})
}

// places is an origin with two directories: 3900 of ours, 5 of the host.
type places struct{ ours, host, cwd string }

func (p places) OurDir(fd int32) (string, bool, error) {
	switch fd {
	case 3900:
		return p.ours, true, nil
	case 3901:
		return "", false, unix.ENOTDIR
	default:
		return "", false, nil
	}
}

func (p places) HostDir(fd int32) (string, error) {
	switch fd {
	case CWD:
		return p.cwd, nil
	case 5:
		return p.host, nil
	default:
		return "", unix.EBADF
	}
}

func TestLookup(t *testing.T) {
	files := oneDevice()
	at := places{ours: "/sys/class/infiniband_verbs", host: "/sys/class", cwd: "/dev"}
	const theKernel = "kernel"
	for _, tt := range []struct {
		path  string
		dirfd int32
		want  string // path of the node, theKernel or an errno
	}{
		{"/sys/class/infiniband_verbs", CWD, "/sys/class/infiniband_verbs"},
		{"/sys/class//infiniband_verbs/.", CWD, "/sys/class/infiniband_verbs"},
		{"/dev/infiniband/uverbs0", 5, "/dev/infiniband/uverbs0"},
		{"/dev/../dev/infiniband/uverbs0", CWD, "/dev/infiniband/uverbs0"},
		{"/dev/infiniband/uverbs1", CWD, "no such file or directory"},
		{"/dev/infiniband/uverbs0/x", CWD, "not a directory"},
		{"/dev/infiniband/rdma_cm", CWD, "no such file or directory"}, // the host's is hidden
		{"/sys/class/infiniband/mlx5_0", CWD, "no such file or directory"},
		{"/etc/passwd", CWD, theKernel},
		{"", CWD, theKernel},
		{"/", CWD, theKernel},
		{"/dev/infiniband/../null", CWD, theKernel},
		{"/dev/infiniband/..", CWD, "above: /dev"},
		{"/sys/class/infiniband/rxe0/../../..", CWD, "above: /sys/devices/platform"},
		{"/dev/infiniband/../..", CWD, "above: /"},
		{"/dev/../etc", CWD, theKernel},
		{"/dev/infiniband/../../root", CWD, theKernel},
		{"/opt/infiniband/lib", CWD, theKernel},
		{"/dev/infiniband2", CWD, theKernel},

		{"infiniband/uverbs0", CWD, "/dev/infiniband/uverbs0"},
		{"./infiniband/uverbs0", CWD, "/dev/infiniband/uverbs0"},
		{"infiniband/rxe0/node_type", 5, "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0/node_type"},
		{"infiniband", 6, theKernel}, // not open
		{"null", CWD, theKernel},
		{"uverbs0/ibdev", 3900, "/sys/devices/virtual/infiniband_verbs/uverbs0/ibdev"},
		{"abi_version", 3900, "/sys/class/infiniband_verbs/abi_version"},
		{"x", 3900, "no such file or directory"},
		{"../net/lo", 3900, theKernel}, // not there for the kernel either: the descriptor is a file
		{"../../../etc/passwd", 3900, theKernel},
		{"..", 3900, "above: /sys/class"},
		{"x", 3901, "not a directory"},
	} {
		got := theKernel
		n, outside, err := Lookup(files, []byte(tt.path), tt.dirfd, true, at)
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
	files := oneDevice()
	f.Fuzz(func(t *testing.T, p []byte, dir string, follow bool) {
		at := places{ours: "/sys/class/infiniband", host: dir, cwd: dir}
		for _, fd := range []int32{CWD, 5, 3900, 3901, -1} {
			n, outside, err := Lookup(files, p, fd, follow, at)
			var errno unix.Errno
			if err != nil && !errors.As(err, &errno) {
				t.Errorf("%q: error %v is not an errno", p, err)
			}
			if outside != "" && (n != nil || err != nil || !files.Above(outside)) {
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
func entriesOf(t *testing.T, f DirentForm, b []byte) (entries []tree.Entry, last int64) {
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
		if f == OldDirent {
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
	files := oneDevice()
	f.Add("/sys/class/infiniband_verbs", uint16(100), false)
	f.Add("/sys/class/infiniband/rxe0/ports/1/gids", uint16(1), true)
	f.Add("/sys/class/infiniband/rxe0/ports/1/gids", uint16(32768), true)
	f.Fuzz(func(t *testing.T, p string, size uint16, old bool) {
		n, err := files.Lookup(p, true)
		if err != nil || n.Kind != tree.Dir {
			return
		}
		form := Dirent64
		if old {
			form = OldDirent
		}
		d := NewDirectory(n)
		want := d.entries
		var got []tree.Entry
		for pos := int64(0); ; {
			b, next, err := d.List(form, pos, int(size))
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

// TestLookupPCI: paths by which programs look for PCI devices lead to those of the tree, and to the
// host's as before.
func TestLookupPCI(t *testing.T) {
	files := tree.New([]tree.Device{{
		Name: "mlx5_0", NodeDesc: "x", Netdev: "lo", OnBus: []string{"0000:00:1f.2"},
		Parent: tree.Parent{Dir: "pcife00:00/fe00:00:00.0", Bus: "pci", Driver: "mlx5_core", Attributes: map[string]string{"class": "0x020000"}},
		Port:   func() tree.PortInfo { return tree.PortInfo{State: 4, ActiveWidth: 1, ActiveSpeed: 1} },
	}})
	at := places{ours: "/sys/bus/pci/devices", host: "/", cwd: "/sys/bus"}
	const device = "/sys/devices/pcife00:00/fe00:00:00.0"
	for _, tt := range []struct {
		path  string
		dirfd int32
		want  string // path of the node; empty: the kernel executes the call
	}{
		{"/sys/class/pci_bus/fe00:00/../../fe00:00:00.0/class", CWD, device + "/class"},
		{"/sys/bus/pci/devices", CWD, "/sys/bus/pci/devices"},
		{"/sys/bus/pci/devices/fe00:00:00.0/class", CWD, device + "/class"},
		{"/sys/bus/pci/devices/0000:00:1f.2/class", CWD, ""},
		{"/sys/class/pci_bus/0000:00/../../0000:00:1f.2/class", CWD, ""},
		{"sys/bus/pci/devices", 5, "/sys/bus/pci/devices"}, // hwloc
		{"pci/devices/fe00:00:00.0/class", CWD, device + "/class"},
		{"fe00:00:00.0/class", 3900, device + "/class"},
		{"/home/user/pci/data", CWD, ""},
		{"pci/drivers/e1000", CWD, ""},
	} {
		n, outside, err := Lookup(files, []byte(tt.path), tt.dirfd, true, at)
		got := ""
		if n != nil {
			got = n.Path
		}
		if got != tt.want || err != nil || outside != "" {
			t.Errorf("%d %s: %q, %q, %v; want %q", tt.dirfd, tt.path, got, outside, err, tt.want)
		}
	}
}
