package tree

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// adapter is a device on a PCI bus that the host does not have.
func adapter() Device {
	d := device("mlx5_0", 0)
	d.ABI, d.HWRev, d.ShowsNetdev = 1, "0", false
	d.Parent = Parent{Dir: "pcife00:03/fe00:03:00.0", Bus: "pci", Driver: "other_core", Attributes: map[string]string{
		"vendor": "0x15b3", "device": "0x101b", "class": "0x020000", "revision": "0x01",
		"subsystem_vendor": "0x15b3", "subsystem_device": "0x0006",
		"modalias": "pci:v000015B3d0000101Bsv000015B3sd00000006bc02sc00i00",
	}}
	d.NUMA = &NUMANode{Number: 1, CPUs: "c", CPUList: "2-3"}
	d.NetdevDir = "/sys/devices/virtual/net/eth0"
	d.OnBus = []string{"0000:00:00.0", "0000:00:1f.2"}
	return d
}

// TestPCIParent: the class link of a device on a PCI bus leads through directories of PCI, as UCX,
// NCCL and libibverbs (by modalias) want it, and out again.
func TestPCIParent(t *testing.T) {
	d := adapter()
	d.NetdevAttr = func(name string) (string, error) { return d.Netdev + "'s " + name, nil }
	tree := New([]Device{d, device("rxe1", 1)})
	const at = "/sys/devices/pcife00:03/fe00:03:00.0"
	const uevent = "DRIVER=other_core\nPCI_CLASS=20000\nPCI_ID=15B3:101B\nPCI_SUBSYS_ID=15B3:0006\nPCI_SLOT_NAME=fe00:03:00.0\n"
	for p, want := range map[string]string{
		"/sys/class/infiniband/mlx5_0/device/vendor":      "0x15b3\n",
		"/sys/class/infiniband/mlx5_0/../../modalias":     d.Parent.Attributes["modalias"] + "\n",
		"/sys/class/infiniband/mlx5_0/hw_rev":             "0\n",
		"/sys/class/infiniband/mlx5_0/device/numa_node":   "1\n",
		"/sys/class/infiniband/mlx5_0/device/local_cpus":  "c\n",
		"/sys/class/infiniband/rxe1/device/numa_node":     "-1\n",
		"/sys/class/infiniband_verbs/uverbs0/abi_version": "1\n",
		"/sys/class/infiniband_mad/umad0/device/vendor":   "0x15b3\n",
		"/sys/class/infiniband/mlx5_0/device/uevent":      uevent + "MODALIAS=" + d.Parent.Attributes["modalias"] + "\n",
		// libvma, ibdev2netdev
		"/sys/class/infiniband/mlx5_0/device/net/eth0/ifindex":  "eth0's ifindex",
		"/sys/class/infiniband/mlx5_0/device/net/eth0/dev_port": "eth0's dev_port",
		"/sys/class/infiniband/mlx5_0/device/net/eth0/other":    "",
		// sriov-device-plugin, Node Feature Discovery
		"/sys/class/net/eth0/device/infiniband/mlx5_0/node_type":            "1: CA\n",
		"/sys/class/net/eth0/device/vendor":                                 "0x15b3\n",
		"/sys/devices/virtual/net/eth0/device/infiniband_verbs/uverbs0/dev": "231:192\n",
		"/sys/class/net/eth0/device/sriov_totalvfs":                         "",
		// net_ib and the topology of NCCL (src/graph/xml.cc: getPciPath), rdmamap, hwloc
		"/sys/class/pci_bus/fe00:03/../../fe00:03:00.0/class":                 "0x020000\n",
		"/sys/bus/pci/devices/fe00:03:00.0/infiniband/mlx5_0/node_type":       "1: CA\n",
		"/sys/bus/pci/devices/fe00:03:00.0/infiniband_verbs/uverbs0/dev":      "231:192\n",
		"/sys/bus/pci/drivers/other_core/fe00:03:00.0/vendor":                 "0x15b3\n",
		"/sys/class/infiniband/rxe1/device/vendor":                            "0xffff\n",
		"/sys/class/infiniband/rxe1/device/../../pcife00:03/x":                "",
		"/sys/class/infiniband/mlx5_0/parent":                                 "",
		"/sys/devices/virtual/infiniband/mlx5_0":                              "",
		"/sys/devices/virtual/infiniband_verbs/uverbs0":                       "",
		"/sys/bus/pci/devices/0000:03:00.0/infiniband/mlx5_1":                 "",
		"/sys/devices/virtual/infiniband/rxe1/node_type":                      "1: CA\n",
		"/sys/devices/pcife00:03/fe00:03:00.0/infiniband_mad/umad0/ibdev":     "mlx5_0\n",
		"/sys/dev/char/231:192/device/infiniband/mlx5_0/device/local_cpulist": "2-3\n",
	} {
		n, err := tree.Lookup(p, true)
		if want == "" {
			if err != unix.ENOENT {
				t.Errorf("%s: %v", p, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", p, err)
		} else if b, err := n.Content(); string(b) != want || err != nil {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if n, err := tree.Lookup("/sys/class/infiniband/mlx5_0", true); err != nil || n.Path != at+"/infiniband/mlx5_0" {
		t.Errorf("the class link leads to %+v, %v", n, err)
	}
	if n, err := tree.Lookup("/sys/class/infiniband/mlx5_0/device/subsystem", false); err != nil || n.target != "../../../bus/pci" {
		t.Errorf("the bus is %+v, %v", n, err)
	}
	if n, err := tree.Lookup("/sys/class/net/eth0/device", false); err != nil || n.Target() != "../../../fe00:03:00.0" {
		t.Errorf("the interface's device is %+v, %v", n, err)
	}
	if New([]Device{device("rxe0", 0)}).Owns("/sys/class/net/eth0/device") {
		t.Error("rdma_rxe gives the interface a parent")
	}
	for _, tt := range []struct {
		path         string
		owned, above bool
	}{
		{at, true, false},
		{at + "/driver", true, false},
		{"/sys/bus/pci/drivers/other_core", true, false},
		{"/sys/bus/pci", false, true},
		{"/sys/class/net/eth0", false, true},
		{"/sys/class/net/eth0/device", true, false},
		{"/sys/class/net/eth1/device", false, false},
		{"/sys/bus/pci/devices/0000:00:1f.2", false, false},
		{"/sys/bus/pci/devices/fe00:03:00.0", true, false},
		{"/sys/class/pci_bus", false, true},
		{"/sys/class/pci_bus/0000:00", false, false},
		{"/sys/devices/pcife00:03", true, true},
		{"/sys/devices/pci0000:00", false, false},
		{"/sys/devices/platform/mlx5_0.gorxe", false, false},
	} {
		if owned, above := tree.Owns(tt.path), tree.Above(tt.path); owned != tt.owned || above != tt.above {
			t.Errorf("%s: owned %t, above the tree %t", tt.path, owned, above)
		}
	}
}

// TestPCIDevices: the directory of the bus lists the host's devices and the tree's. Without a
// device there, it is the host's.
func TestPCIDevices(t *testing.T) {
	second := adapter()
	second.Name, second.Index, second.Parent.Dir = "mlx5_1", 1, "pcife00:04/fe00:04:00.0"
	tree := New([]Device{adapter(), second})
	n, err := tree.Lookup(pciDevices, true)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range n.Entries() {
		names = append(names, e.Name)
		if e.Kind != Link || e.Ino == 0 {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"0000:00:00.0", "0000:00:1f.2", "fe00:03:00.0", "fe00:04:00.0"}; !slices.Equal(names, want) {
		t.Errorf("it lists %q, want %q", names, want)
	}
	if n, outside, err := tree.Walk(pciDevices+"/0000:00:1f.2/vendor", true); n != nil || err != nil || outside != pciDevices+"/0000:00:1f.2/vendor" {
		t.Errorf("a device of the host: %v, %q, %v", n, outside, err)
	}
	if New([]Device{device("rxe0", 0)}).Owns(pciDevices) {
		t.Error("a tree without devices of PCI has the directory")
	}
}

// TestPCIConfig: programs that read the configuration space find the same numbers (lspci).
func TestPCIConfig(t *testing.T) {
	tree := New([]Device{adapter()})
	n, err := tree.Lookup(pciDevices+"/fe00:03:00.0/config", true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.Content()
	want := "\xb3\x15\x1b\x10\x06\x00\x00\x00\x01\x00\x00\x02"
	if err != nil || len(b) != 256 || string(b[:12]) != want || string(b[0x2c:0x30]) != "\xb3\x15\x06\x00" {
		t.Errorf("%d bytes, %q, %v", len(b), b[:min(len(b), 0x30)], err)
	}
	for _, a := range tree.Seen()[0].Parent.Attributes {
		if a.Name == "config" || a.Name == "resource" || strings.ContainsRune(a.Value, 0) {
			t.Errorf("--as-seen shows %+v", a)
		}
	}
}
