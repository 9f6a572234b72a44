package tree

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// parentDevice lays out the parent of a device. The package comment lists its readers. rdma_rxe has
// no parent and is below devices/virtual, where hwloc does not look for devices. The directory net
// names the network interface, as that of an adapter does.
func (b *builder) parentDevice(p *Parent, netdev string, at *NUMANode) {
	dir, driver := p.dir(), p.driverDir()
	b.dir(driver)
	b.dir(dir)
	b.driverCore(dir, p.busDir(), "DRIVER="+p.Driver+"\n")
	b.link(dir+"/driver", driver)
	b.link(driver+"/"+path.Base(dir), dir)
	if netdev != "" {
		b.dir(dir + "/net")
		b.link(dir+"/net/"+netdev, "/sys/class/net/"+netdev)
	}
	for name, value := range p.Attributes {
		b.constant(dir+"/"+name, value+"\n")
	}
	if at == nil {
		at = &NUMANode{-1, cpuMask(runtime.NumCPU()), cpuList(runtime.NumCPU())}
	}
	b.constant(dir+"/numa_node", fmt.Sprintln(at.Number))
	b.constant(dir+"/local_cpus", at.CPUs)
	b.constant(dir+"/local_cpulist", at.CPUList)
	b.owned = append(b.owned, dir, driver)
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
