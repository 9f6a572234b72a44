package tree

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CharFile is a character device that belongs to no RDMA device, as rdma_cm.
type CharFile struct {
	Name         string // of the node in /dev/infiniband
	Major, Minor uint32
	Mode         uint32 // permission bits
	// ABI is the content of the file abi_version of class misc, without the newline; empty:
	// the device is not in sysfs.
	ABI string
}

// RDMACM is the device that librdmacm opens. Its minor number is the one that stands for any
// (MISC_DYNAMIC_MINOR), which no device of the host has.
func RDMACM() CharFile {
	return CharFile{Name: rdmaCM, Major: miscMajor, Minor: 255, Mode: 0o666, ABI: "4"}
}

// New makes the tree of devs and files. Two devices must not share a name or an index.
func New(devs []Device, files ...CharFile) *Tree {
	b := builder{nodes: make(map[string]*Node), mtime: time.Now()}
	for _, dir := range []string{
		"/dev/infiniband", classInfiniband, classVerbs, classMAD, devicesInfiniband, devicesVerbs, devicesMAD,
	} {
		b.dir(dir)
	}
	b.constant(classVerbs+"/abi_version", decimal(verbsABI))
	b.constant(classMAD+"/abi_version", decimal(madABI))
	for i := range devs {
		if !devs[i].Gone {
			b.device(i, &devs[i])
		}
	}
	for i := range files {
		b.charFile(&files[i])
	}
	b.fillDirectories()
	t := &Tree{nodes: b.nodes, parents: b.owned, above: maps.Clone(hostDirs)}
	for _, p := range t.parents {
		for dir := path.Dir(p); !t.above[dir]; dir = path.Dir(dir) {
			t.above[dir] = true
		}
	}
	t.pci = b.nodes[pciDevices] != nil
	return t
}

const (
	classInfiniband   = "/sys/class/infiniband"
	classVerbs        = "/sys/class/infiniband_verbs"
	classMAD          = "/sys/class/infiniband_mad"
	devicesInfiniband = "/sys/devices/virtual/infiniband"
	devicesVerbs      = "/sys/devices/virtual/infiniband_verbs"
	devicesMAD        = "/sys/devices/virtual/infiniband_mad"
	classMisc         = "/sys/class/misc"
	devicesMisc       = "/sys/devices/virtual/misc"

	rdmaCM    = "rdma_cm"
	miscMajor = 10 // MISC_MAJOR

	verbsABI = 6 // IB_USER_VERBS_ABI_VERSION
	madABI   = 5 // IB_USER_MAD_ABI_VERSION

	// statsLifespan is how many milliseconds the kernel keeps a reading of
	// hw_counters (RDMA_HW_STATS_DEFAULT_LIFESPAN).
	statsLifespan = 10
)

// DevDir is where the character devices are.
const DevDir = "/dev/infiniband"

// builder collects the nodes of a tree.
type builder struct {
	nodes map[string]*Node
	mtime time.Time // of what is made now
	owned []string  // directories in places that are the host's otherwise
}

func (b *builder) add(n Node) {
	n.mtime = b.mtime
	b.nodes[n.Path] = newNode(n)
}

func (b *builder) dir(p string) { b.add(Node{Path: p, Kind: Dir, Mode: 0o755}) }

// link points a link at an absolute path in the relative form that the kernel
// gives it.
func (b *builder) link(p, to string) {
	b.add(Node{Path: p, Kind: Link, Mode: 0o777, target: relative(path.Dir(p), to)})
}

// relative returns the way from one directory to a path, by their common parent.
func relative(from, to string) string {
	f, t := strings.Split(from, "/"), strings.Split(to, "/")
	for len(f) > 0 && len(t) > 1 && f[0] == t[0] {
		f, t = f[1:], t[1:]
	}
	return strings.Repeat("../", len(f)) + strings.Join(t, "/")
}

func (b *builder) file(p string, mode uint32, read func() (string, error)) {
	b.add(Node{Path: p, Kind: File, Mode: mode, read: read})
}

func (b *builder) constant(p, content string) {
	b.file(p, 0o444, func() (string, error) { return content, nil })
}

// setting adds a file that the kernel lets root write.
func (b *builder) setting(p, content string) {
	b.file(p, 0o644, func() (string, error) { return content, nil })
}

func (b *builder) table(p string, n int, read func(i int) (string, error)) {
	b.add(Node{Path: p, Kind: Dir, Mode: 0o755, table: &table{n: n, read: read}})
}

// fillDirectories enters each node into its directory, if the tree has that.
func (b *builder) fillDirectories() {
	for p, n := range b.nodes {
		if parent := b.nodes[path.Dir(p)]; parent != nil {
			parent.children = append(parent.children, Entry{Name: path.Base(p), Kind: n.Kind, Ino: n.Ino})
		}
	}
	for _, n := range b.nodes {
		slices.SortFunc(n.children, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
}

// device lays out one device: drivers/infiniband/core/sysfs.c, ib_dev_attrs, and
// rxe_verbs.c, rxe_dev_attributes.
func (b *builder) device(index int, d *Device) {
	created := b.mtime
	if !d.Created.IsZero() {
		b.mtime = d.Created
	}
	defer func() { b.mtime = created }()

	parent := d.Parent.dir()
	b.parentDevice(&d.Parent, d)
	dir := parent + "/infiniband/" + d.Name
	b.dir(path.Dir(dir))
	b.dir(dir)
	b.link(dir+"/device", parent)
	b.link(classInfiniband+"/"+d.Name, dir)
	if !d.Parent.isPCI() {
		b.link(devicesInfiniband+"/"+d.Name, dir)
	}
	b.driverCore(dir, classInfiniband, "NAME="+d.Name+"\n")
	b.constant(dir+"/node_type", "1: CA\n")
	b.constant(dir+"/node_guid", guid(d.NodeGUID))
	b.constant(dir+"/sys_image_guid", guid(d.SysImageGUID))
	b.setting(dir+"/node_desc", describe(d.NodeDesc))
	b.constant(dir+"/fw_ver", d.FWVer+"\n")
	for name, content := range map[string]string{"hw_rev": d.HWRev, "hca_type": d.HCAType, "board_id": d.BoardID} {
		if content != "" {
			b.constant(dir+"/"+name, content+"\n")
		}
	}
	if d.ShowsNetdev {
		b.constant(dir+"/parent", d.Netdev+"\n")
	}
	b.dir(dir + "/ports")
	b.port(dir+"/ports/1", d)
	b.uverbs(index, d)
	b.umad(index, d)
}

// driverCore lays out what every device of a class has: drivers/base/core.c,
// device_add, and drivers/base/power/sysfs.c for a device without power
// management.
func (b *builder) driverCore(dir, class, uevent string) {
	b.link(dir+"/subsystem", class)
	b.setting(dir+"/uevent", uevent)
	power := dir + "/power"
	b.dir(power)
	b.setting(power+"/async", "disabled\n")
	b.setting(power+"/control", "auto\n")
	b.file(power+"/autosuspend_delay_ms", 0o644, func() (string, error) { return "", unix.EIO })
	b.constant(power+"/runtime_enabled", "disabled\n")
	b.constant(power+"/runtime_status", "unsupported\n")
	for _, name := range []string{"runtime_active_kids", "runtime_active_time", "runtime_suspended_time", "runtime_usage"} {
		b.constant(power+"/"+name, "0\n")
	}
}

// charDir lays out the directory of a character device: below the parent, if that is on a bus where
// the kernel does so, or else among those without a parent.
func (b *builder) charDir(d *Device, class, virtual, name string) string {
	dir := virtual + "/" + name
	if d.Parent.isPCI() {
		above := d.Parent.dir() + "/" + path.Base(class)
		b.dir(above)
		dir = above + "/" + name
		b.link(dir+"/device", d.Parent.dir())
	}
	b.dir(dir)
	b.link(class+"/"+name, dir)
	return dir
}

// uverbs lays out the character device: uverbs_main.c, ib_uverbs_add_one and
// uverbs_devnode.
func (b *builder) uverbs(index int, d *Device) {
	name := "uverbs" + strconv.Itoa(d.Index)
	dir := b.charDir(d, classVerbs, devicesVerbs, name)
	minor := uverbsBaseMinor + d.Index
	number := fmt.Sprintf("%d:%d", uverbsMajor, minor)
	b.driverCore(dir, classVerbs, fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s\nDEVMODE=0666\n", uverbsMajor, minor, name))
	b.constant(dir+"/ibdev", d.Name+"\n")
	b.constant(dir+"/abi_version", decimal(uint64(d.ABI)))
	b.constant(dir+"/dev", number+"\n")
	b.add(Node{
		Path: "/dev/infiniband/" + name, Kind: CharDev, Mode: 0o666,
		Rdev: unix.Mkdev(uverbsMajor, uint32(minor)), DeviceName: d.Name, Device: index,
	})
	b.link("/dev/char/"+number, "/dev/infiniband/"+name)
	b.link("/sys/dev/char/"+number, dir)
}

// umad lays out the character device of the port's management datagrams: user_mad.c,
// ib_umad_init_port, and umad_class. A RoCE port has no issm, because it has no subnet manager.
func (b *builder) umad(index int, d *Device) {
	name := umadPrefix + strconv.Itoa(d.Index)
	dir := b.charDir(d, classMAD, devicesMAD, name)
	minor := umadBaseMinor + d.Index
	number := fmt.Sprintf("%d:%d", uverbsMajor, minor)
	b.driverCore(dir, classMAD, fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s\n", uverbsMajor, minor, name))
	b.constant(dir+"/ibdev", d.Name+"\n")
	b.constant(dir+"/port", "1\n")
	b.constant(dir+"/dev", number+"\n")
	b.add(Node{
		Path: "/dev/infiniband/" + name, Kind: CharDev, Mode: 0o600, UID: d.Owner,
		Rdev: unix.Mkdev(uverbsMajor, uint32(minor)), DeviceName: d.Name, Device: index,
	})
	b.link("/dev/char/"+number, "/dev/infiniband/"+name)
	b.link("/sys/dev/char/"+number, dir)
}

// charFile lays out a device of its own, in sysfs too if it has an ABI: drivers/char/misc.c,
// misc_register, and ucma.c, show_abi_version.
func (b *builder) charFile(f *CharFile) {
	b.add(Node{
		Path: "/dev/infiniband/" + f.Name, Kind: CharDev, Mode: f.Mode,
		Rdev: unix.Mkdev(f.Major, f.Minor), Device: -1,
	})
	if f.ABI == "" {
		return
	}
	dir := devicesMisc + "/" + f.Name
	b.dir(dir)
	b.link(classMisc+"/"+f.Name, dir)
	b.driverCore(dir, classMisc, fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/%s\nDEVMODE=0666\n", f.Major, f.Minor, f.Name))
	b.constant(dir+"/abi_version", f.ABI+"\n")
	b.constant(dir+"/dev", fmt.Sprintf("%d:%d\n", f.Major, f.Minor))
}

// port lays out ports/1: port_default_attrs, and the tables of setup_port and
// setup_gid_attrs.
func (b *builder) port(dir string, d *Device) {
	b.dir(dir)
	show := func(file string, print func(*PortInfo) string) {
		b.file(dir+"/"+file, 0o444, func() (string, error) {
			p := d.Port()
			return print(&p), nil
		})
	}
	show("state", (*PortInfo).state)
	show("phys_state", (*PortInfo).physState)
	show("link_layer", (*PortInfo).linkLayer)
	// Ethernet has none
	for _, none := range [][2]string{{"lid", "0x0"}, {"lid_mask_count", "0"}, {"sm_lid", "0x0"}, {"sm_sl", "0"}} {
		show(none[0], func(*PortInfo) string { return none[1] + "\n" })
	}
	show("cap_mask", func(p *PortInfo) string { return fmt.Sprintf("0x%08x\n", p.CapMask) })
	b.file(dir+"/rate", 0o444, func() (string, error) {
		p := d.Port()
		if s, ok := p.rate(); ok {
			return s, nil
		}
		return "", unix.EINVAL
	})
	b.gids(dir, d)
	b.counterDir(dir+"/counters", d.Counters)
	for _, c := range d.CMCounters {
		b.counterDir(dir+"/"+c.Name, c.Read)
	}
	if d.HWCounters != nil {
		b.counterDir(dir+"/hw_counters", d.HWCounters)
		b.counters(dir+"/hw_counters", Node{Mode: 0o400, UID: d.Owner}, d.OwnerCounters)
		b.setting(dir+"/hw_counters/lifespan", decimal(statsLifespan))
	}
}

// gids lays out the tables of addresses and of partition keys.
func (b *builder) gids(dir string, d *Device) {
	info := d.Port()
	// show_port_gid prints an empty entry as zeros.
	b.table(dir+"/gids", info.GIDTableLen, func(i int) (string, error) {
		p := d.Port()
		g, _ := p.gid(i)
		return g.String() + "\n", nil
	})
	// _show_port_gid_attr refuses one.
	attr := func(content string) func(int) (string, error) {
		return func(i int) (string, error) {
			p := d.Port()
			if _, ok := p.gid(i); !ok {
				return "", unix.EINVAL
			}
			return content, nil
		}
	}
	b.dir(dir + "/gid_attrs")
	b.table(dir+"/gid_attrs/types", info.GIDTableLen, attr("RoCE v2\n"))
	b.table(dir+"/gid_attrs/ndevs", info.GIDTableLen, attr(d.Netdev+"\n"))
	b.table(dir+"/pkeys", len(info.PKeys), func(i int) (string, error) {
		p := d.Port()
		if i >= len(p.PKeys) {
			return "", unix.EINVAL
		}
		return fmt.Sprintf("0x%04x\n", p.PKeys[i]), nil
	})
}

// counterDir lays out a directory of counters that all may read.
func (b *builder) counterDir(dir string, read func() []Counter) {
	if read == nil {
		return
	}
	b.dir(dir)
	b.counters(dir, Node{Mode: 0o444}, read)
}

// counters lays out a file for each counter, with the mode and the user of like.
func (b *builder) counters(dir string, like Node, read func() []Counter) {
	if read == nil {
		return
	}
	for _, c := range read() {
		value := func() (string, error) {
			for _, now := range read() {
				if now.Name == c.Name {
					return decimal(now.Value), nil
				}
			}
			return "", unix.EINVAL
		}
		b.add(Node{Path: dir + "/" + c.Name, Kind: File, Mode: like.Mode, UID: like.UID, read: value, Live: true})
	}
}
