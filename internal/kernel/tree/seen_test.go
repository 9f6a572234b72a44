package tree

import (
	"slices"
	"strings"
	"testing"
)

// TestSeen: every text is the one that the file at its path has.
func TestSeen(t *testing.T) {
	tree := testTree()
	content := func(p string) string {
		n, err := tree.Lookup(p, true)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		c, err := n.Content()
		if err != nil {
			return "error"
		}
		return strings.TrimSuffix(string(c), "\n")
	}
	check := func(dir string, list []Attribute, want ...string) {
		t.Helper()
		for _, name := range want {
			if !slices.ContainsFunc(list, func(a Attribute) bool { return a.Name == name }) {
				t.Errorf("%s lacks %s: %+v", dir, name, list)
			}
		}
		for _, a := range list {
			if got := content(dir + "/" + a.Name); a.Errno == "" && got != a.Value || a.Errno != "" && got != "error" {
				t.Errorf("%s: %+v, the file has %q", dir, a, got)
			}
		}
	}
	seen := tree.Seen()
	if len(seen) != 2 || seen[0].Name != "rxe0" || seen[1].Name != "rxe1" {
		t.Fatalf("%+v", seen)
	}
	for i, s := range seen {
		check("/sys/class/infiniband/"+s.Name, s.Attributes, "node_guid", "sys_image_guid", "fw_ver", "board_id", "node_type", "uevent")
		check("/sys/class/infiniband/"+s.Name+"/device", s.Parent.Attributes, "class", "vendor", "device", "numa_node", "local_cpulist")
		if s.Path != "/sys/devices/platform/"+s.Name+".gorxe/infiniband/"+s.Name {
			t.Errorf("path %s", s.Path)
		}
		if p := s.Parent; p.Path != "/sys/devices/platform/"+s.Name+".gorxe" || p.Subsystem != "platform" || p.Driver != "gorxe" {
			t.Errorf("parent %+v", p)
		}
		if want := []string{"/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1"}[i]; s.Node.Path != want ||
			s.Node.Number != content("/sys/class/infiniband_verbs/uverbs"+s.Name[3:]+"/dev") || s.Node.Mode != "0666" {
			t.Errorf("node %+v", s.Node)
		}
		if len(s.Ports) != 1 {
			t.Fatalf("ports %+v", s.Ports)
		}
		p := s.Ports[0]
		check("/sys/class/infiniband/"+s.Name+"/ports/1", p.Attributes, "state", "rate", "link_layer")
		want := []SeenGID{
			{0, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "RoCE v2", "eth0"},
			{1, "0000:0000:0000:0000:0000:ffff:c000:0207", "RoCE v2", "eth0"},
			{3, "2001:0db8:0000:0000:0000:0000:0000:0007", "RoCE v2", "eth0"}, // 2 is empty
		}
		if !slices.Equal(p.GIDs, want) || !slices.Equal(p.PKeys, []string{"0xffff"}) || p.Number != 1 {
			t.Errorf("port %+v", p)
		}
	}
	if empty := New(nil).Seen(); empty == nil || len(empty) != 0 {
		t.Errorf("no devices: %+v", empty)
	}
	// The attribute of a file that cannot be read has the errno.
	if a := tree.attribute("/sys/class/infiniband/rxe0/power", "autosuspend_delay_ms"); a.Errno != "EIO" || a.Value != "" {
		t.Errorf("%+v", a)
	}
}
