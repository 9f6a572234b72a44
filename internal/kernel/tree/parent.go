package tree

import (
	"fmt"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// parentDevice lays out the parent of a device. The package comment lists its readers. rdma_rxe has
// no parent and is below devices/virtual, where hwloc does not look for devices. The directory net
// names the network interface, as that of an adapter does.
func (b *builder) parentDevice(p *Parent, d *Device) {
	dir, driver, netdev := p.dir(), p.driverDir(), d.Netdev
	b.dir(driver)
	b.dir(dir)
	b.driverCore(dir, p.busDir(), p.uevent())
	b.link(dir+"/driver", driver)
	b.link(driver+"/"+path.Base(dir), dir)
	if netdev != "" {
		b.dir(dir + "/net")
		b.netdev(dir+"/net/"+netdev, d)
	}
	for name, value := range p.Attributes {
		b.constant(dir+"/"+name, value+"\n")
	}
	node := d.NUMA
	if node == nil {
		node = &NUMANode{Number: -1, CPUs: cpuMask(runtime.NumCPU()), CPUList: cpuList(runtime.NumCPU())}
	}
	b.constant(dir+"/numa_node", strconv.Itoa(node.Number)+"\n")
	b.constant(dir+"/local_cpus", node.CPUs+"\n")
	b.constant(dir+"/local_cpulist", node.CPUList+"\n")
	b.owned = append(b.owned, dir, driver)
	if p.isPCI() {
		b.pci(p, d.OnBus)
		b.netdevParent(p, d)
	}
}

// cpuMask is the mask of CPUs 0 to n-1 in the kernel's form (%*pb): words of 32
// bits in hexadecimal, the first without leading zeros.
func cpuMask(n int) string {
	first := n % 32
	if first == 0 {
		first = 32
	}
	mask := fmt.Sprintf("%x", uint64(1)<<first-1)
	return mask + strings.Repeat(",ffffffff", (n-first)/32)
}

// cpuList is the same as a list (%*pbl).
func cpuList(n int) string {
	if n == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", n-1)
}

// netdevAttrs are the files of a network interface that programs read through an RDMA device:
// libvma and NVIDIA's ibdev2netdev do. All others are in /sys/class/net.
var netdevAttrs = []string{
	"address", "carrier", "dev_id", "dev_port", "duplex", "flags", "ifindex", "iflink", "mtu", "operstate", "speed", "type",
}

// netdev lays out the network interface of a device, which is below the device as an adapter's is.
func (b *builder) netdev(dir string, d *Device) {
	if d.NetdevAttr == nil {
		b.link(dir, classNet+"/"+d.Netdev)
		return
	}
	b.dir(dir)
	for _, name := range netdevAttrs {
		b.file(dir+"/"+name, 0o444, func() (string, error) { return d.NetdevAttr(name) })
	}
}
