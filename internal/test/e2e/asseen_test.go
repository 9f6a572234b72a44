package e2e

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestAsSeen: a program reads in each file what `gorxe devices --as-seen` says.
func TestAsSeen(t *testing.T) {
	need(t, "cat", "stat")
	if !selection.takes(core) {
		return
	}
	d, _ := twoDevices(t)
	var list []proto.Seen
	text := start(t, d.host, d.env(), gorxe, "devices", "--as-seen", "--json").ok()
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v in\n%s", err, text)
	}
	argv, want := []string{"cat"}, ""
	add := func(path, value string) {
		argv, want = append(argv, path), want+value+"\n"
	}
	attributes := func(dir string, list []proto.Attribute) {
		for _, a := range list {
			add(dir+"/"+a.Name, a.Value)
		}
	}
	for _, s := range list {
		dir := "/sys/class/infiniband/" + s.Name
		attributes(dir, s.Attributes)
		attributes(dir+"/device", s.Parent.Attributes)
		attributes(dir+"/ports/1", s.Ports[0].Attributes)
		for _, g := range s.Ports[0].GIDs {
			index := strconv.Itoa(g.Index)
			add(dir+"/ports/1/gids/"+index, g.GID)
			add(dir+"/ports/1/gid_attrs/types/"+index, g.Type)
			add(dir+"/ports/1/gid_attrs/ndevs/"+index, g.Netdev)
		}
		add("/sys/dev/char/"+s.Node.Number+"/ibdev", s.Name)
		if mode := d.run(t, "stat", "-c", "0%a %F", s.Node.Path).ok(); mode != s.Node.Mode+" character special file\n" {
			t.Errorf("%s is %q, want mode %s", s.Node.Path, mode, s.Node.Mode)
		}
	}
	if got := d.run(t, argv...).ok(); got != want {
		t.Errorf("programs read\n%s\nwant\n%s", got, want)
	}
}
