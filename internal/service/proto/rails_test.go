package proto

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// TestRails: rails are on an interface each if the host has as many with addresses, and else all on
// loopback addresses. Private ones are at free addresses.
func TestRails(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	want := func(devices string, list ...string) {
		t.Helper()
		specs, err := ParseSpecs(devices, nil, "")
		if err != nil || !slices.Equal(texts(specs), list) {
			t.Errorf("%s: %q, %v, want %q", devices, texts(specs), err, list)
		}
		for _, s := range specs {
			if again, err := ParseSpec(s.String()); err != nil || again != s {
				t.Errorf("%v is read as %+v, %v", s, again, err)
			}
		}
	}
	want(Rails(2), "rxe0=127.0.0.1,rail", "rxe1=127.0.0.2,rail")
	ends := map[string]string{"rail0": "192.0.2.1/24", "rail1": "198.51.100.1/24"}
	must.OK(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "rail0"}, PeerName: "rail1"}))
	for name, address := range ends {
		link := must.Get[netlink.Link](t)(netlink.LinkByName(name))
		must.OK(t, netlink.AddrAdd(link, must.Get[*netlink.Addr](t)(netlink.ParseAddr(address))))
		must.OK(t, netlink.LinkSetUp(link))
	}
	specs := must.Get[[]Spec](t)(ParseSpecs(Rails(2), nil, ""))
	if got := texts(specs); !slices.Equal(got, []string{"rxe0=rail0,rail", "rxe1=rail1,rail"}) && !slices.Equal(got, []string{"rxe0=rail1,rail", "rxe1=rail0,rail"}) {
		t.Errorf("with two interfaces: %q", got)
	}
	want(Rails(3), "rxe0=127.0.0.1,rail", "rxe1=127.0.0.2,rail", "rxe2=127.0.0.3,rail")
	if devices, list := FreePlaces(Rails(2), nil, ""); devices != "" || !slices.Equal(list, []string{"rxe0=free,rail", "rxe1=free,rail"}) {
		t.Errorf("private: %q, %q", devices, list)
	}
	if _, err := ParseSpecs(Rails(33), nil, ""); err == nil {
		t.Error("33 rails")
	}
}

func texts(specs []Spec) (list []string) {
	for _, s := range specs {
		list = append(list, s.String())
	}
	return list
}
