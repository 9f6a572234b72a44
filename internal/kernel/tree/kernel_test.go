package tree

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// differences are where the tree is not the kernel's on purpose, by the last
// component of a path or all of it, with the reason.
var differences = map[string]string{
	"issm0":                "newer kernels have none for a RoCE port, which has no subnet manager",
	"231:64":               "the same",
	"rdma_cm":              "a file that belongs to no device",
	"device":               "for programs that look for a bus device: see parentDevice",
	"hw_counters/lifespan": "the same default of 10 ms, not rounded to the kernel's clock tick",
}

// moved are the links that show where the device is: on the platform bus, for which
// see parentDevice, and not among those without a parent.
var moved = map[string]string{
	"/sys/class/infiniband/rxe0":                     "../../devices/platform/rxe0.gorxe/infiniband/rxe0",
	"/sys/devices/virtual/infiniband/rxe0":           "../../platform/rxe0.gorxe/infiniband/rxe0",
	"/sys/devices/virtual/infiniband/rxe0/subsystem": "../../../../../class/infiniband",
}

func differs(p string) bool {
	for part := range differences {
		if strings.HasSuffix(p, "/"+part) || strings.Contains(p, "/"+part+"/") {
			return true
		}
	}
	return false
}

// kernelDevice is the device of the dump.
func kernelDevice() Device {
	d := device("rxe0", 0)
	d.BoardID = "" // the kernel has none
	d.NodeGUID, d.SysImageGUID = 0x68c99efffe0988b8, 0x68c99efffe0988b8
	d.Port = func() PortInfo {
		p := port1()
		p.ActiveSpeed = 8
		p.GIDs = p.GIDs[:0:0]
		for _, a := range []string{"fe80::68c9:9eff:fe09:88b8", "10.77.0.1", "fd00:77::1"} {
			p.GIDs = append(p.GIDs, wire.GIDFromAddr(netip.MustParseAddr(a)))
		}
		return p
	}
	names := []string{
		"ack_deferred", "completer_retry_err", "duplicate_request", "link_downed", "out_of_seq_request",
		"rcvd_pkts", "rcvd_rnr_err", "rcvd_seq_err", "rdma_recvs", "rdma_sends", "retry_exceeded_err",
		"retry_rnr_exceeded_err", "send_err", "send_rnr_err", "sent_pkts",
	}
	d.HWCounters = func() []Counter {
		counters := make([]Counter, len(names))
		for i, n := range names {
			counters[i].Name = n
		}
		return counters
	}
	for _, dir := range []string{"cm_rx_duplicates", "cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries"} {
		d.CMCounters = append(d.CMCounters, CounterDir{Name: dir, Read: func() (counters []Counter) {
			for _, n := range []string{"apr", "drep", "dreq", "lap", "mra", "rej", "rep", "req", "rtu", "sidr_rep", "sidr_req"} {
				counters = append(counters, Counter{Name: n})
			}
			return counters
		}})
	}
	return d
}

// TestKernelTree compares the tree with that of a Linux kernel, path by path.
func TestKernelTree(t *testing.T) {
	f, err := os.Open("testdata/kernel-6.1.192.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree := New([]Device{kernelDevice()})
	compared := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		mode, rest, _ := strings.Cut(line, " ")
		p, value, _ := strings.Cut(rest, " ")
		if differs(p) {
			if !tree.Owns(p) {
				t.Errorf("%s of the host is not hidden", p)
			}
			continue
		}
		n, err := tree.Lookup(p, false)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		if target, ok := moved[p]; ok {
			if n.Kind != Link || n.Target() != target {
				t.Errorf("%s: a %v to %s, want a link to %s", p, n.Kind, n.Target(), target)
			}
			if kind := mode[:2]; kind == "12" { // what the kernel has there is a link, too
				continue
			}
			if n, err = tree.Lookup(p, true); err != nil {
				t.Errorf("%s leads nowhere: %v", p, err)
				continue
			}
		}
		if got := fmt.Sprintf("%06o", n.Stat().Mode); got != mode {
			t.Errorf("%s: mode %s, the kernel's is %s", p, got, mode)
		}
		if got, want := valueOf(n), withoutDifferences(p, n.Kind, value); got != want {
			t.Errorf("%s:\n%s; the kernel's is\n%s", p, got, want)
		}
		compared++
	}
	if compared < 80 {
		t.Errorf("only %d paths compared", compared)
	}
}

// valueOf is what the dump says of a node after its path.
func valueOf(n *Node) string {
	switch n.Kind {
	case Dir:
		var names []string
		for _, e := range n.Entries() {
			if !differs(n.Path + "/" + e.Name) {
				names = append(names, e.Name)
			}
		}
		if n.table != nil && n.table.n > 1 {
			return fmt.Sprintf("%s..%s", names[0], names[len(names)-1])
		}
		return strings.Join(names, " ")
	case Link:
		return n.Target()
	case CharDev:
		return fmt.Sprintf("%d:%d", unix.Major(n.Rdev), unix.Minor(n.Rdev))
	default:
		content, err := n.Content()
		if errno, ok := err.(unix.Errno); ok {
			return fmt.Sprintf("errno %d", int(errno))
		}
		return strconv.Quote(string(content))
	}
}

func withoutDifferences(dir string, kind Kind, value string) string {
	if kind != Dir {
		return value
	}
	names := slices.DeleteFunc(strings.Fields(value), func(name string) bool { return differs(path.Join(dir, name)) })
	return strings.Join(names, " ")
}
