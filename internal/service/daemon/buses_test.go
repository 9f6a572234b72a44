package daemon

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestNUMA: adapters are dealt to the nodes that have processors. On a machine with one node none
// is named.
func TestNUMA(t *testing.T) {
	node := func(root fstest.MapFS, name, list, mask string) {
		root["sys/devices/system/node/"+name+"/cpulist"] = &fstest.MapFile{Data: []byte(list + "\n")}
		root["sys/devices/system/node/"+name+"/cpumap"] = &fstest.MapFile{Data: []byte(mask + "\n")}
	}
	root := fstest.MapFS{"sys/devices/system/node/online": {Data: []byte("0,2,10\n")}}
	node(root, "node0", "0-1", "3")
	if n := numaNode(root, 1); n != nil {
		t.Errorf("one node: %+v", n)
	}
	node(root, "node10", "2-3", "c")
	node(root, "node2", "", "0") // memory only
	for index, want := range []string{"&{0 3 0-1}", "&{10 c 2-3}", "&{0 3 0-1}"} {
		if got := fmt.Sprint(numaNode(root, index)); got != want {
			t.Errorf("adapter %d is on %s, want %s", index, got, want)
		}
	}
	if n := numaNode(fstest.MapFS{}, 0); n != nil {
		t.Errorf("no sysfs: %+v", n)
	}
}

// TestLook: sysfs has the adapter's names, and a device beside it has Soft-RoCE's.
func TestLookOfAdapter(t *testing.T) {
	specs := []proto.Spec{testSpec("mlx5_0"), testSpec("rxe0")}
	specs[0].Like = "bluefield3"
	seen, err := SeenOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]string{
		{"hca_type": "MT41692", "hw_rev": "1", "board_id": "MT_0000000884", "fw_ver": "32.43.1014"},
		{"hca_type": "rxe", "board_id": "gorxe", "fw_ver": "", "parent": "lo"},
	} {
		got := make(map[string]string)
		for _, a := range seen[i].Attributes {
			got[a.Name] = a.Value
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %q, want %q", seen[i].Name, name, got[name], value)
			}
		}
		for _, name := range []string{"hw_rev", "parent"} {
			if _, has := got[name]; has != (want[name] != "") {
				t.Errorf("%s has %s: %t", seen[i].Name, name, has)
			}
		}
	}
	if seen[0].Node.Path != "/dev/infiniband/uverbs0" || seen[0].Parent.Subsystem != "pci" || seen[1].Parent.Subsystem != "platform" {
		t.Errorf("%+v", seen)
	}
}
