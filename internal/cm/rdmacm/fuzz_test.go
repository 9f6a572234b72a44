package rdmacm

import (
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/cm/route"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// FuzzRequest gives the Manager the messages of a stranger, which begin a connection or
// refer to one. Whatever they say, the Manager answers or drops them, and a program
// connects afterwards.
func FuzzRequest(f *testing.F) {
	seed := func(mad *wire.MAD, index uint8) { f.Add(mad[:], index) }
	var mad wire.MAD
	header := wire.IPCMHeader{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), SrcPort: 1}
	req := mad.InitREQ(1)
	req.SetLocalCommID(7)
	req.SetServiceID(wire.ServiceID(wire.PortSpaceTCP, 7174))
	req.SetCAGUID(9)
	req.SetPathMTU(3)
	req.SetPrimaryPath(&wire.CMPath{
		LocalGID:  wire.GIDFromAddr(netip.MustParseAddr("10.0.0.2")),
		RemoteGID: wire.GIDFromAddr(netip.MustParseAddr("10.0.0.1")),
	})
	header.Put(req.PrivateData())
	seed(&mad, 0)
	seed(&mad, 200)
	req.PrivateData()[1] = 0 // AF_IB
	seed(&mad, 0)
	sidr := mad.InitSIDRREQ(1)
	sidr.SetServiceID(wire.ServiceID(wire.PortSpaceUDP, 7174))
	header.Put(sidr.PrivateData())
	seed(&mad, 1)
	f.Fuzz(func(t *testing.T, b []byte, index uint8) {
		var mad wire.MAD
		copy(mad[:], b)
		bubble(t, func(t *testing.T, fab *fabric) {
			h := newHost(t, fab, "10.0.0.1", "fe80::1")
			defer h.close()
			l := h.listening(wire.PortSpaceTCP, "[::]:7174")
			udp := h.listening(wire.PortSpaceUDP, "0.0.0.0:7174")
			ib := h.user(wire.PortSpaceIB)
			must.OK(t, ib.Bind(afib(wire.PortSpaceIB)))
			must.OK(t, ib.Listen())
			from := rxe.AHAttr{DGID: wire.GIDFromAddr(netip.MustParseAddr("10.0.0.2")), SGIDIndex: index, PortNum: 1}
			agent{h.dev}.ReceiveMAD(from, wire.GSIQPN, &mad)
			for _, u := range []*user{l, udp, ib} {
				u.names()
			}
			connected(h, l, "10.0.0.1:7174")
		})
	})
}

// FuzzReadRequest reads the header of the RDMA IP CM service as a peer may write it.
func FuzzReadRequest(f *testing.F) {
	var data [wire.CMREQPrivateLen]byte
	header := wire.IPCMHeader{Src: netip.MustParseAddr("127.0.0.1"), Dst: netip.MustParseAddr("127.0.0.1"), SrcPort: 1}
	header.Put(data[:])
	f.Add(data[:], uint64(0x01060000), false)
	f.Add(data[:], uint64(0x01110000), true)
	f.Fuzz(func(t *testing.T, b []byte, service uint64, lookup bool) {
		data := make([]byte, wire.CMREQPrivateLen)
		if lookup {
			data = make([]byte, wire.CMSIDRREQPrivateLen)
		}
		copy(data, b)
		bubble(t, func(t *testing.T, fab *fabric) {
			h := newHost(t, fab, "10.0.0.1", "127.0.0.1")
			defer h.close()
			req := &cm.Request{Lookup: lookup, Service: service, PrivateData: data,
				Path: wire.CMPath{RemoteGID: wire.GIDFromAddr(netip.MustParseAddr("10.0.0.1"))},
				From: rxe.AHAttr{DGID: wire.GIDFromAddr(netip.MustParseAddr("10.0.0.2"))}}
			h.mu.Lock()
			defer h.mu.Unlock()
			if header, err := wire.ParseIPCM(data); err == nil {
				info := h.dev.Net()
				h.dev.back.query = backQuery(&info, route.WithZone(header.Dst, info.Index), route.WithZone(header.Src, info.Index))
				h.dev.back.way.Interface = info.Index
			}
			r, verdict := h.dev.readRequest(req)
			if (r == nil) == (verdict == nil) {
				t.Fatal("it is neither read nor refused")
			}
			if r != nil && (r.local.Addr().IsLoopback() || r.remote.Addr().IsLoopback()) {
				t.Errorf("a stranger connects %v to %v", r.remote, r.local)
			}
		})
	})
}
