package hosts

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
)

// TestNewFails: a network that cannot be made is an error. Root may make the hosts here, but not
// another interface lo. Other users may not even make the hosts.
func TestNewFails(t *testing.T) {
	end := func(name, address string) labfile.Host {
		return labfile.Host{Name: name, Ports: []labfile.Port{{Interface: "lo", Address: netip.MustParsePrefix(address)}}}
	}
	lab := &labfile.Lab{
		Hosts: []labfile.Host{end("a", "10.0.0.1/24"), end("b", "10.0.0.2/24")},
		Links: []labfile.Link{{Ends: [2]labfile.End{{Node: "a", Interface: "lo"}, {Node: "b", Interface: "lo"}}, MTU: 1500}},
	}
	if n, err := New(lab, ""); n != nil || err == nil {
		t.Error(n, err)
	}
}
