package tree

import (
	"errors"
	"net/netip"
	"path"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// port1 is an active port with a hole in its GID table.
func port1() PortInfo {
	return PortInfo{
		State: 4, PhysState: 5, LinkLayer: 2, ActiveWidth: 1, ActiveSpeed: 1,
		CapMask: 1 << 16, GIDTableLen: 1024, PKeys: []uint16{0xffff},
		GIDs: []wire.GID{
			wire.GIDFromAddr(netip.MustParseAddr("fe80::5054:ff:fe12:3456")),
			wire.GIDFromAddr(netip.MustParseAddr("192.0.2.7")),
			{},
			wire.GIDFromAddr(netip.MustParseAddr("2001:db8::7")),
		},
	}
}

// platformParent is a parent as the driver of librxe says it.
func platformParent(name string) Parent {
	return Parent{Dir: "platform/" + name + ".gorxe", Bus: "platform", Driver: "gorxe", Attributes: map[string]string{
		"class": "0x020000", "vendor": "0xffff", "device": "0x0000", "subsystem_vendor": "0xffff", "subsystem_device": "0x0000",
	}}
}

func device(name string, index int) Device {
	return Device{
		Name: name, Index: index, Parent: platformParent(name), ABI: 2, NodeGUID: 0x505400fffe123456, SysImageGUID: 0x505400fffe123456,
		NodeDesc: "rxe", BoardID: "gorxe", Netdev: "eth0", ShowsNetdev: true, Port: port1,
		HWCounters: func() []Counter {
			return []Counter{{Name: "sent_pkts", Value: 17}, {Name: "rcvd_pkts", Value: 1 << 40}}
		},
	}
}

func testTree() *Tree { return New([]Device{device("rxe0", 0), device("rxe1", 1)}) }

func TestContents(t *testing.T) {
	tree := testTree()
	for _, tt := range []struct {
		path, want string
		err        error
	}{
		{path: "/sys/class/infiniband_verbs/abi_version", want: "6\n"},
		{path: "/sys/class/infiniband_verbs/uverbs0/ibdev", want: "rxe0\n"},
		{path: "/sys/class/infiniband_mad/abi_version", want: "5\n"},
		{path: "/sys/class/infiniband_mad/umad1/ibdev", want: "rxe1\n"},
		{path: "/sys/class/infiniband_mad/umad1/port", want: "1\n"},
		{path: "/sys/class/infiniband_mad/umad1/dev", want: "231:1\n"},
		{path: "/sys/class/infiniband_verbs/uverbs1/ibdev", want: "rxe1\n"},
		{path: "/sys/class/infiniband_verbs/uverbs1/dev", want: "231:193\n"},
		{path: "/sys/class/infiniband_verbs/uverbs0/abi_version", want: "2\n"},
		{path: "/sys/class/infiniband_verbs/uverbs0/uevent", want: "MAJOR=231\nMINOR=192\nDEVNAME=infiniband/uverbs0\nDEVMODE=0666\n"},
		{path: "/sys/class/infiniband/rxe0/node_type", want: "1: CA\n"},
		{path: "/sys/class/infiniband/rxe0/node_guid", want: "5054:00ff:fe12:3456\n"},
		{path: "/sys/class/infiniband/rxe0/node_desc", want: "rxe\n"},
		{path: "/sys/class/infiniband/rxe0/fw_ver", want: "\n"},
		{path: "/sys/class/infiniband/rxe0/parent", want: "eth0\n"},
		{path: "/sys/class/infiniband/rxe1/uevent", want: "NAME=rxe1\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/state", want: "4: ACTIVE\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/phys_state", want: "5: LinkUp\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/rate", want: "2.5 Gb/sec (1X SDR)\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/link_layer", want: "Ethernet\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/lid", want: "0x0\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/cap_mask", want: "0x00010000\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/pkeys/0", want: "0xffff\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gids/0", want: "fe80:0000:0000:0000:5054:00ff:fe12:3456\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gids/1", want: "0000:0000:0000:0000:0000:ffff:c000:0207\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gids/2", want: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gids/1023", want: "0000:0000:0000:0000:0000:0000:0000:0000\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/3", want: "RoCE v2\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/3", want: "eth0\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/2", err: unix.EINVAL},
		{path: "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/1023", err: unix.EINVAL},
		{path: "/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", want: "17\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts", want: "1099511627776\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1/hw_counters/lifespan", want: "10\n"},
		{path: "/sys/class/infiniband/rxe0/ports/1", err: unix.EISDIR},
		{path: "/sys/class/infiniband/rxe0/device/numa_node", want: "-1\n"},
		{path: "/sys/class/infiniband/rxe0/device/class", want: "0x020000\n"},
		{path: "/sys/class/infiniband/rxe0/device/vendor", want: "0xffff\n"},
		{path: "/sys/class/infiniband/rxe0/device/device", want: "0x0000\n"},
		{path: "/sys/class/infiniband/rxe0/device/uevent", want: "DRIVER=gorxe\n"},
		{path: "/sys/class/infiniband/rxe0/device/infiniband/rxe0/uevent", want: "NAME=rxe0\n"},
		{path: "/sys/class/infiniband/rxe0/board_id", want: "gorxe\n"},
		// Through links and dots, as the kernel resolves them.
		{path: "/sys/class/infiniband/rxe0/../../../rxe1.gorxe/infiniband/rxe1/uevent", want: "NAME=rxe1\n"},
		{path: "/sys/class/infiniband/rxe0/subsystem/rxe1/./uevent", want: "NAME=rxe1\n"},
		{path: "/sys/class//infiniband_verbs/uverbs1/../../infiniband_verbs/uverbs0/ibdev", want: "rxe0\n"},
		{path: "/sys/dev/char/231:193/ibdev", want: "rxe1\n"},
	} {
		n, err := tree.Lookup(tt.path, true)
		if err != nil {
			t.Errorf("Lookup(%s): %v", tt.path, err)
			continue
		}
		got, err := n.Content()
		if string(got) != tt.want || err != tt.err {
			t.Errorf("%s: %q, %v; want %q, %v", tt.path, got, err, tt.want, tt.err)
		}
	}
}

// Only root and the owner may read the owner's counters.
func TestOwnerCounters(t *testing.T) {
	d := device("rxe0", 0)
	d.Owner = 1000
	d.OwnerCounters = func() []Counter { return []Counter{{Name: "receive_filter_drop", Value: 3}} }
	n, err := New([]Device{d}).Lookup("/sys/class/infiniband/rxe0/ports/1/hw_counters/receive_filter_drop", true)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := n.Content(); string(text) != "3\n" || err != nil || !n.Live {
		t.Errorf("%q, %v, live %v", text, err, n.Live)
	}
	for uid, want := range map[uint32]bool{0: true, 1000: true, 1001: false} {
		if n.Permits(uid, uid == 0, unix.R_OK) != want {
			t.Errorf("user %d may read it: %v", uid, !want)
		}
	}
}

func TestLookupErrors(t *testing.T) {
	tree := testTree()
	const dev = "/sys/class/infiniband/rxe0"
	for _, tt := range []struct {
		path string
		want error
	}{
		{"", unix.ENOENT},
		{"sys/class/infiniband", unix.ENOENT},
		{"/sys/class/infiniband/mlx5_0", unix.ENOENT},
		{"/sys/class/infiniband_mad/umad2", unix.ENOENT},
		{"/sys/class/infiniband_mad/issm0", unix.ENOENT},
		{"/dev/infiniband/issm0", unix.ENOENT},
		{"/sys/class/misc/rdma_cm/abi_version", unix.ENOENT},
		{"/dev/infiniband/rdma_cm", unix.ENOENT},
		{"/dev/infiniband/uverbs2", unix.ENOENT},
		{"/dev/infiniband/uverbs0/x", unix.ENOTDIR},
		{"/dev/infiniband/uverbs0/", unix.ENOTDIR},
		{"/dev/infiniband/uverbs0/..", unix.ENOTDIR},
		{dev + "/node_type/", unix.ENOTDIR},
		{dev + "/node_type/.", unix.ENOTDIR},
		{dev + "/device/net/eth7", unix.ENOENT},
		{dev + "/device/modalias", unix.ENOENT},
		{"/sys/devices/platform/rxe2.gorxe", unix.ENOENT},
		{"/sys/devices/platform/rxe0.gorxe/infiniband/rxe1", unix.ENOENT},
		{dev + "/ports/2", unix.ENOENT},
		{dev + "/ports/1/counters", unix.ENOENT},
		{dev + "/ports/1/gids/1024", unix.ENOENT},
		{dev + "/ports/1/gids/01", unix.ENOENT},
		{dev + "/ports/1/gids/+1", unix.ENOENT},
		{dev + "/ports/1/gids/-1", unix.ENOENT},
		{dev + "/ports/1/gids/1/1", unix.ENOTDIR},
		{dev + "/ports/1/pkeys/1", unix.ENOENT},
		{"/sys/bus/pci/devices/0000:03:00.0/infiniband/mlx5_0", unix.ENOENT},
		{dev + "/" + strings.Repeat("x", 256), unix.ENAMETOOLONG},
		{dev + strings.Repeat("/.", 2048), unix.ENAMETOOLONG},
		// Not the tree's.
		{"/sys/class/infiniband/..", unix.ENOENT},
		{"/sys/class/infiniband/../net", unix.ENOENT},
		{"/etc/passwd", unix.ENOENT},
		{"/", unix.ENOENT},
	} {
		if n, err := tree.Lookup(tt.path, true); err != tt.want {
			t.Errorf("Lookup(%.60s) = %v, %v; want %v", tt.path, n, err, tt.want)
		}
	}
}

func TestLinks(t *testing.T) {
	tree := testTree()
	for _, tt := range []struct{ path, target, real string }{
		{"/sys/class/infiniband/rxe0", "../../devices/platform/rxe0.gorxe/infiniband/rxe0", "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0"},
		{"/sys/devices/virtual/infiniband/rxe0", "../../platform/rxe0.gorxe/infiniband/rxe0", "/sys/devices/platform/rxe0.gorxe/infiniband/rxe0"},
		{"/sys/class/infiniband/rxe1/device", "../../../rxe1.gorxe", "/sys/devices/platform/rxe1.gorxe"},
		{"/sys/class/infiniband/rxe1/device/driver", "../../../bus/platform/drivers/gorxe", "/sys/bus/platform/drivers/gorxe"},
		{"/sys/bus/platform/drivers/gorxe/rxe0.gorxe", "../../../../devices/platform/rxe0.gorxe", "/sys/devices/platform/rxe0.gorxe"},
		{"/sys/class/infiniband_verbs/uverbs1", "../../devices/virtual/infiniband_verbs/uverbs1", "/sys/devices/virtual/infiniband_verbs/uverbs1"},
		{"/sys/devices/virtual/infiniband/rxe0/subsystem", "../../../../../class/infiniband", "/sys/class/infiniband"},
		{"/sys/devices/virtual/infiniband_verbs/uverbs0/subsystem", "../../../../class/infiniband_verbs", "/sys/class/infiniband_verbs"},
		{"/dev/char/231:192", "../infiniband/uverbs0", "/dev/infiniband/uverbs0"},
		{"/sys/dev/char/231:192", "../../devices/virtual/infiniband_verbs/uverbs0", "/sys/devices/virtual/infiniband_verbs/uverbs0"},
	} {
		n, err := tree.Lookup(tt.path, false)
		if err != nil || n.Kind != Link || n.Target() != tt.target {
			t.Errorf("%s: %+v, %v; want a link to %s", tt.path, n, err, tt.target)
		}
		if n, err = tree.Lookup(tt.path, true); err != nil || n.Path != tt.real {
			t.Errorf("%s leads to %+v, %v; want %s", tt.path, n, err, tt.real)
		}
		if n, err = tree.Lookup(tt.path+"/", false); err == nil && n.Kind != Dir {
			t.Errorf("%s/ is a %v", tt.path, n.Kind)
		}
	}
}

func TestWalkOutside(t *testing.T) {
	tree := testTree()
	for _, tt := range []struct{ path, want string }{
		{"/etc/passwd", "/etc/passwd"},
		{"/sys/class/net/../infiniband", "/sys/class/net/../infiniband"},
		{"/sys/class/infiniband/../net/lo/../x", "/sys/class/net/lo/../x"},
		{"/sys/class/infiniband/rxe0/../../../net//lo/", "/sys/devices/platform/net//lo/"},
		{"/sys/class/infiniband/..", "/sys/class"},
		{"/../../sys", "/sys"},
		{"/", "/"},
	} {
		n, outside, err := tree.Walk(tt.path, true)
		if n != nil || err != nil || outside != tt.want {
			t.Errorf("Walk(%s) = %v, %q, %v; want %q", tt.path, n, outside, err, tt.want)
		}
	}
}

func TestLinkLoop(t *testing.T) {
	tree := testTree()
	tree.nodes["/dev/infiniband/loop"] = newNode(Node{Path: "/dev/infiniband/loop", Kind: Link, target: "loop"})
	if _, err := tree.Lookup("/dev/infiniband/loop", true); err != unix.ELOOP {
		t.Errorf("followed: %v, want ELOOP", err)
	}
	if n, err := tree.Lookup("/dev/infiniband/loop", false); err != nil || n.Kind != Link {
		t.Errorf("not followed: %v, %v", n, err)
	}
}

func TestOwns(t *testing.T) {
	tree := testTree()
	for p, want := range map[string]bool{
		"/dev/infiniband":                         true,
		"/dev/infiniband/rdma_cm":                 true,
		"/dev/infiniband2":                        false,
		"/dev/char/231:200":                       true,
		"/dev/char/231":                           false,
		"/dev/char/23:1":                          false,
		"/sys/dev/char/231:0/ibdev":               true,
		"/sys/class/infiniband":                   true,
		"/sys/class/infiniband_mad/x":             true,
		"/sys/class/infinibandx":                  false,
		"/sys/class/net/ib0":                      false,
		"/sys/class/misc/rdma_cm/dev":             true,
		"/sys/class/misc/rdma_cmx":                false,
		"/sys/class/misc":                         false,
		"/sys/devices/platform/rxe1.gorxe":        true,
		"/sys/devices/platform/rxe1.gorxe/vendor": true,
		"/sys/devices/platform/serial8250":        false,
		"/sys/devices/platform":                   false,
		"/sys/bus/platform/drivers/gorxe/rxe0":    true,
		"/sys/bus/platform/drivers/gorxe2":        false,
		"/sys/fs/cgroup/infiniband":               false,
		"/sys/devices/virtual":                    false,
		"/sys":                                    false,
		"/":                                       false,
		"":                                        false,
		"dev/infiniband":                          false,
		"/home/u/sys/class/infiniband":            false,
		"/sys/devices/virtual/misc":               false,
		"/sys/class/infiniband/../net":            false,
		"/sys/class/net/../infiniband/":           true,
		"/sys/bus/pci/devices/0000:03:00.0/infiniband/mlx5_0":               true,
		"/sys/devices/pci0000:00/0000:03:00.0/infiniband_verbs/uverbs0/dev": true,
	} {
		if got := tree.Owns(p); got != want {
			t.Errorf("Owns(%q) = %v", p, got)
		}
	}
}

// TestTreeIsWhole walks all of it: every entry of a directory can be looked up
// and is what the directory says, and inode numbers are unique.
func TestTreeIsWhole(t *testing.T) {
	tree := testTree()
	inodes := make(map[uint64]string)
	var walk func(dir string)
	walk = func(dir string) {
		n, err := tree.Lookup(dir, false)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if n.Path != dir || n.Ino == 0 || !tree.Owns(dir) {
			t.Errorf("%s: %+v", dir, n)
		}
		if other, ok := inodes[n.Ino]; ok {
			t.Errorf("%s and %s have one inode number", dir, other)
		}
		inodes[n.Ino] = dir
		st := n.Stat()
		if st.Mode&unix.S_IFMT != n.Kind.format() || st.Mtime.IsZero() {
			t.Errorf("%s: stat %+v", dir, st)
		}
		links := uint32(1)
		if n.Kind == Dir {
			links = 2
		}
		for _, e := range n.Entries() {
			c, err := tree.Lookup(dir+"/"+e.Name, false)
			if err != nil || c.Ino != e.Ino || c.Kind != e.Kind {
				t.Errorf("%s lists %+v, which is %+v, %v", dir, e, c, err)
			}
			if e.Kind == Dir {
				links++
			}
			walk(dir + "/" + e.Name)
		}
		if st.Nlink != links {
			t.Errorf("%s: %d links, want %d", dir, st.Nlink, links)
		}
		if n.Kind == File {
			if c, err := n.Content(); err == nil && !strings.HasSuffix(string(c), "\n") {
				t.Errorf("%s: %q", dir, c)
			}
		}
	}
	for _, root := range []string{"/dev/infiniband", classInfiniband, classVerbs, devicesInfiniband, devicesVerbs, "/sys/devices/platform/rxe0.gorxe", "/sys/devices/platform/rxe1.gorxe", "/sys/bus/platform/drivers/gorxe"} {
		walk(root)
	}
	if len(inodes) < 2*3*1024 {
		t.Errorf("only %d nodes", len(inodes))
	}
}

func TestStableIdentity(t *testing.T) {
	// libibverbs takes a device with another mtime for another device.
	d := device("rxe0", 0)
	d.Created = testTree().nodes["/dev/infiniband"].mtime.Add(-1e9)
	a, b := New([]Device{d}), New([]Device{device("rxe1", 1), d})
	const p = "/sys/class/infiniband/rxe0"
	na, _ := a.Lookup(p, true)
	nb, _ := b.Lookup(p, true)
	if na.Stat().Mtime != d.Created || na.Stat() != nb.Stat() {
		t.Errorf("%+v and %+v", na.Stat(), nb.Stat())
	}
	c, err := b.Lookup("/dev/infiniband/uverbs0", true)
	if err != nil || c.DeviceName != "rxe0" || c.Device != 1 || c.Rdev != unix.Mkdev(231, 192) || c.Mode != unix.S_IFCHR|0o666 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestEmptyTree(t *testing.T) {
	tree := New(nil)
	for _, p := range []string{"/dev/infiniband", classInfiniband, devicesVerbs} {
		if n, err := tree.Lookup(p, true); err != nil || len(n.Entries()) != 0 {
			t.Errorf("%s: %+v, %v", p, n, err)
		}
	}
}

func FuzzLookup(f *testing.F) {
	for _, p := range []string{
		"/", "", "/sys/class/infiniband/rxe0/ports/1/gids/17", "/sys/class/infiniband/rxe0/../../x",
		"/dev/infiniband/uverbs0/", "/dev/char/231:192", "/sys/dev/char/231:193/subsystem/uverbs0/../..",
		"//sys//class/./infiniband_verbs/../../../..", "/sys/class/infiniband/rxe1/subsystem/rxe0/subsystem",
	} {
		f.Add(p, true)
		f.Add(p, false)
	}
	tree := testTree()
	f.Fuzz(func(t *testing.T, p string, follow bool) {
		owns := tree.Owns(p)
		if owns != tree.Owns(path.Clean(p)) {
			t.Errorf("Owns(%q) depends on its spelling", p)
		}
		n, outside, err := tree.Walk(p, follow)
		switch {
		case err != nil:
			if n != nil || outside != "" {
				t.Errorf("Walk(%q) = %v, %q, %v", p, n, outside, err)
			}
			var errno unix.Errno
			if !errors.As(err, &errno) {
				t.Errorf("Walk(%q): %v is no errno", p, err)
			}
		case n != nil:
			if outside != "" || !tree.Owns(n.Path) || path.Clean(n.Path) != n.Path || strings.Contains(n.Path, "..") {
				t.Errorf("Walk(%q) = %+v, %q", p, n, outside)
			}
			if follow && n.Kind == Link {
				t.Errorf("Walk(%q) stops at the link %s", p, n.Path)
			}
			n.Stat()
			n.Entries()
			n.Content() //nolint:errcheck // must not panic
		default:
			if !strings.HasPrefix(outside, "/") {
				t.Errorf("Walk(%q) leads to %q", p, outside)
			}
			// What a caller would do next must not come back for ever.
			if again, out2, err := tree.Walk(outside, follow); err != nil || again != nil || out2 != outside {
				t.Errorf("Walk(%q) = %v, %q, %v: not where it leads", outside, again, out2, err)
			}
		}
	})
}

func TestCPUs(t *testing.T) {
	for n, want := range map[int][2]string{
		1:   {"1", "0"},
		2:   {"3", "0-1"},
		32:  {"ffffffff", "0-31"},
		33:  {"1,ffffffff", "0-32"},
		100: {"f,ffffffff,ffffffff,ffffffff", "0-99"},
	} {
		if mask, list := cpuMask(n), cpuList(n); mask != want[0] || list != want[1] {
			t.Errorf("%d processors: %q, %q; want %q", n, mask, list, want)
		}
	}
}

// TestRates: what rate_show prints of each width and speed.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		width uint8
		speed uint32
		want  string
	}{
		{1, 1, "2.5 Gb/sec (1X SDR)\n"}, {2, 2, "20 Gb/sec (4X DDR)\n"}, {1, 8, "10 Gb/sec (1X FDR10)\n"},
		{2, 8, "40 Gb/sec (4X FDR10)\n"}, {16, 16, "28 Gb/sec (2X FDR)\n"}, {2, 32, "100 Gb/sec (4X EDR)\n"},
		{4, 64, "400 Gb/sec (8X HDR)\n"}, {8, 128, "1200 Gb/sec (12X NDR)\n"}, {2, 256, "800 Gb/sec (4X XDR)\n"},
		{1, 512, "2.5 Gb/sec (1X SDR)\n"}, {3, 1, ""},
	} {
		p := PortInfo{ActiveWidth: tt.width, ActiveSpeed: tt.speed}
		if got, ok := p.rate(); got != tt.want || ok != (tt.want != "") {
			t.Errorf("width %d, speed %d: %q, want %q", tt.width, tt.speed, got, tt.want)
		}
	}
}

// TestRDMACM: librdmacm finds its device, whose numbers agree, and the network interface of
// an RDMA device leads to the host's.
func TestRDMACM(t *testing.T) {
	d := device("rxe0", 0)
	tr := New([]Device{d}, RDMACM())
	n, err := tr.Lookup("/dev/infiniband/rdma_cm", true)
	if err != nil || !n.IsRDMACM() || n.Rdev != unix.Mkdev(10, 255) || n.Mode != unix.S_IFCHR|0o666 {
		t.Fatalf("%+v, %v", n, err)
	}
	for path, want := range map[string]string{
		"/sys/class/misc/rdma_cm/abi_version":           "4\n",
		"/sys/class/misc/rdma_cm/dev":                   "10:255\n",
		"/sys/devices/virtual/misc/rdma_cm/abi_version": "4\n",
	} {
		n, err := tr.Lookup(path, true)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, err := n.Content(); string(got) != want || err != nil {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	net := classInfiniband + "/rxe0/device/net"
	if n, err := tr.Lookup(net, true); err != nil || len(n.Entries()) != 1 || n.Entries()[0].Name != d.Netdev {
		t.Errorf("%s: %+v, %v", net, n, err)
	}
	if _, outside, err := tr.Walk(net+"/"+d.Netdev+"/mtu", true); outside != "/sys/class/net/"+d.Netdev+"/mtu" || err != nil {
		t.Errorf("the interface is at %q, %v", outside, err)
	}
}

// Management datagrams are for the owner of a device and root.
func TestUMAD(t *testing.T) {
	const owner, other = 1000, 1001
	d := device("rxe0", 0)
	d.Owner = owner
	tree := New([]Device{d}, RDMACM())
	for _, c := range []struct {
		path  string
		umad  bool
		uid   uint32 // of the node
		other uint32 // what another user may do
	}{
		{"/dev/infiniband/umad0", true, owner, 0},
		{"/dev/infiniband/uverbs0", false, 0, 6},
		{"/dev/infiniband/rdma_cm", false, 0, 6},
		{"/sys/class/infiniband_mad/umad0/ibdev", false, 0, 4},
	} {
		n, err := tree.Lookup(c.path, true)
		if err != nil {
			t.Fatal(err)
		}
		if n.IsUMAD() != c.umad || n.Stat().UID != c.uid {
			t.Errorf("%s: umad %v, of user %d", c.path, n.IsUMAD(), n.Stat().UID)
		}
		for way := range uint32(8) {
			if got, want := n.Permits(other, false, way), c.other&way == way; got != want {
				t.Errorf("%s: another user may do %d: %v", c.path, way, got)
			}
			if got, want := n.Permits(0, true, way), 6&way == way; got != want {
				t.Errorf("%s: root may do %d: %v", c.path, way, got)
			}
			if got, want := n.Permits(owner, false, way), 6&way == way && (c.umad || c.other&way == way); got != want {
				t.Errorf("%s: the owner may do %d: %v", c.path, way, got)
			}
		}
	}
}

// TestNUMA: a device is at the node that it is said to be at.
func TestNUMA(t *testing.T) {
	d := device("rxe0", 0)
	d.NUMA = &NUMANode{Number: 3, CPUs: "f0", CPUList: "4-7"}
	tree := New([]Device{d})
	for name, want := range map[string]string{"numa_node": "3\n", "local_cpus": "f0\n", "local_cpulist": "4-7\n"} {
		n, err := tree.Lookup("/sys/class/infiniband/rxe0/device/"+name, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.Content(); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
