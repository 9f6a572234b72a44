package tree

import (
	"encoding/binary"
	"fmt"
	"path"
	"strconv"
	"strings"
)

const (
	busPCI        = "pci"
	pciDevices    = "/sys/bus/pci/devices"
	classPCIBus   = "/sys/class/pci_bus"
	classNet      = "/sys/class/net"
	pciConfigSize = 256 // of the configuration space without PCI Express's extension
)

// isPCI reports whether the device is on the PCI bus. Then its character devices are below the
// parent, too, as those of an adapter are (uverbs_main.c, ib_uverbs_add_one: dev.parent).
func (p *Parent) isPCI() bool { return p.Bus == busPCI }

// pci lays out what readers of the bus find of a device: drivers/pci/pci-sysfs.c, and
// drivers/pci/probe.c for the bus. The root of the bus is the tree's, because the host does not
// have it. hostDevices are those that the host has on the bus.
func (b *builder) pci(p *Parent, hostDevices []string) {
	dir := p.dir()
	address := path.Base(dir)
	b.link(pciDevices+"/"+address, dir)
	if b.nodes[pciDevices] == nil {
		children := make([]Entry, 0, len(hostDevices))
		for _, name := range hostDevices {
			children = append(children, Entry{Name: name, Kind: Link, Ino: inode(pciDevices + "/" + name)})
		}
		b.add(Node{Path: pciDevices, Kind: Dir, Mode: 0o755, children: children})
	}
	bus := address[:max(strings.LastIndex(address, ":"), 0)]
	root := path.Dir(dir)
	for _, d := range []string{root, root + "/pci_bus", root + "/pci_bus/" + bus} {
		b.dir(d)
	}
	b.link(classPCIBus+"/"+bus, root+"/pci_bus/"+bus)
	b.owned = append(b.owned, root, pciDevices+"/"+address, classPCIBus+"/"+bus)

	b.add(Node{Path: dir + "/config", Kind: File, Mode: 0o644, read: func() (string, error) { return p.config(), nil }})
	b.constant(dir+"/resource", strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13))
	b.constant(dir+"/irq", "0\n")
	b.setting(dir+"/enable", "1\n")
}

// netdevParent lets the network interface name the adapter as its parent. The target is that of an
// interface below the adapter, which programs take apart.
func (b *builder) netdevParent(p *Parent, d *Device) {
	if d.Netdev == "" || d.Netdev == "lo" {
		return
	}
	for _, dir := range []string{classNet + "/" + d.Netdev, d.NetdevDir} {
		link := dir + "/device"
		if dir == "" || b.nodes[link] != nil {
			continue // several adapters share the interface
		}
		b.add(Node{Path: link, Kind: Link, Mode: 0o777, target: "../../../" + path.Base(p.dir()), leads: p.dir()})
		b.owned = append(b.owned, link)
	}
}

// uevent is what the parent says of itself (drivers/pci/pci-driver.c: pci_uevent).
func (p *Parent) uevent() string {
	text := "DRIVER=" + p.Driver + "\n"
	if !p.isPCI() {
		return text
	}
	return text + fmt.Sprintf("PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n",
		p.number("class"), p.number("vendor"), p.number("device"), p.number("subsystem_vendor"), p.number("subsystem_device"),
		path.Base(p.Dir), p.Attributes["modalias"])
}

// number is an attribute that is a hexadecimal number; 0 if there is none.
func (p *Parent) number(name string) uint32 {
	n, _ := strconv.ParseUint(p.Attributes[name], 0, 32)
	return uint32(n)
}

// config is the header of the configuration space (PCI Local Bus Specification 3.0, 6.1): the
// identification of the device, with memory and bus mastering enabled, and without capabilities.
func (p *Parent) config() string {
	var b [pciConfigSize]byte
	le := binary.LittleEndian
	le.PutUint16(b[0:], uint16(p.number("vendor")))
	le.PutUint16(b[2:], uint16(p.number("device")))
	b[4] = 1<<1 | 1<<2
	le.PutUint32(b[8:], p.number("class")<<8|p.number("revision"))
	le.PutUint16(b[0x2c:], uint16(p.number("subsystem_vendor")))
	le.PutUint16(b[0x2e:], uint16(p.number("subsystem_device")))
	return string(b[:])
}
