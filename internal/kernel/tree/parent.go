package tree

import (
	"fmt"
	"runtime"
	"strings"
)

// parentSuffix ends the name of a device's parent: rxe0.gorxe. NCCL takes two parents
// for two ports of one adapter if their paths differ in the last character only
// (net_ib: ncclIbGetPciPath).
const parentSuffix = "." + driverName

// parentDevice lays out the parent, which represents the bus device of a NIC. The package
// comment lists its readers. rdma_rxe has no parent and is below devices/virtual, where hwloc
// does not look for devices. This parent is on the platform bus, like the adapters of a
// system on a chip, so programs that read PCI properties see that it is not a PCI device.
//
// The numbers match no adapter: PCI reserves vendor 0xffff for an empty slot, and 0x020000 is
// the class of every Ethernet controller. There is no modalias, by which libibverbs would
// look for another provider (init.c: match_modalias). The directory net names the network
// interface, as that of an adapter does.
func (b *builder) parentDevice(dir, netdev string) {
	b.dir(dir)
	b.driverCore(dir, busPlatform, "DRIVER="+driverName+"\n")
	b.link(dir+"/driver", driverDir)
	b.link(driverDir+dir[strings.LastIndexByte(dir, '/'):], dir)
	if netdev != "" {
		b.dir(dir + "/net")
		b.link(dir+"/net/"+netdev, "/sys/class/net/"+netdev)
	}
	b.constant(dir+"/class", "0x020000\n")
	b.constant(dir+"/vendor", "0xffff\n")
	b.constant(dir+"/device", "0x0000\n")
	b.constant(dir+"/subsystem_vendor", "0xffff\n")
	b.constant(dir+"/subsystem_device", "0x0000\n")
	b.constant(dir+"/numa_node", "-1\n")
	b.constant(dir+"/local_cpus", cpuMask(runtime.NumCPU()))
	b.constant(dir+"/local_cpulist", cpuList(runtime.NumCPU()))
}

// cpuMask is the mask of CPUs 0 to n-1 in the kernel's form (%*pb): words of 32
// bits in hexadecimal, the first without leading zeros.
func cpuMask(n int) string {
	first := n % 32
	if first == 0 {
		first = 32
	}
	mask := fmt.Sprintf("%x", uint64(1)<<first-1)
	return mask + strings.Repeat(",ffffffff", (n-first)/32) + "\n"
}

// cpuList is the same as a list (%*pbl).
func cpuList(n int) string {
	if n == 1 {
		return "0\n"
	}
	return fmt.Sprintf("0-%d\n", n-1)
}
