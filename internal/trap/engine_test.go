package trap

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// engineHost is a Host with one running device on an address of the loopback
// interface.
func engineHost(t testing.TB) *fakeHost {
	t.Helper()
	var dev *uverbs.Device
	addr := netip.MustParseAddr("127.0.113.7")
	e, err := engine.Start(engine.Config{
		Name: "rxe0", Address: addr,
		OnEvent: func(ev rxe.Event) {
			if dev != nil {
				dev.Event(ev)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if dev, err = uverbs.NewDevice(uverbs.Config{Device: e.Device(), Driver: librxe.Driver{}}); err != nil {
		t.Fatal(err)
	}
	gid := wire.GIDFromAddr(addr)
	return &fakeHost{
		devs: map[string]*uverbs.Device{"rxe0": dev},
		tree: tree.New([]tree.Device{{
			Name: "rxe0", NodeGUID: 1, SysImageGUID: 1, NodeDesc: "rxe", Netdev: "lo",
			Parent: tree.Parent(librxe.Driver{}.Look("rxe0", 0).Parent), ABI: librxe.Driver{}.ABI(),
			Port: func() tree.PortInfo {
				return tree.PortInfo{
					State: 4, PhysState: 5, LinkLayer: 2, ActiveWidth: 1, ActiveSpeed: 1,
					GIDTableLen: 1024, GIDs: []wire.GID{gid}, PKeys: []uint16{0xffff},
				}
			},
		}}),
	}
}
