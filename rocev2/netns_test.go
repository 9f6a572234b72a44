package rocev2

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	rocelayers "github.com/gorxe/gorxe/rocev2/layers"
)

// cable is a veth pair: the port is at one end, and the test sends and receives
// frames at the other, as the network.
type cable struct {
	t    *testing.T
	near netlink.Link
	far  netlink.Link
	fd   int // packet socket on the far end
}

// newCable makes the pair v0, v1 and gives v0 the addresses. A segmentation limit of
// one makes the kernel cut GSO sends before they enter the cable, as for a network
// card.
func newCable(t *testing.T, addrs ...string) *cable {
	t.Helper()
	return newNamedCable(t, "v0", addrs...)
}

// newNamedCable is newCable with another name for v0.
func newNamedCable(t *testing.T, name string, addrs ...string) *cable {
	t.Helper()
	must.OK(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 4500}, PeerName: "v1", PeerMTU: 4500}))
	rocelayers.Register()
	c := &cable{t: t}
	var err error
	c.near, err = netlink.LinkByName(name)
	must.OK(t, err)
	c.far, err = netlink.LinkByName("v1")
	must.OK(t, err)
	must.OK(t, netlink.LinkSetGSOMaxSegs(c.near, 1))
	c.mute()
	must.OK(t, netlink.LinkSetUp(c.far))
	must.OK(t, netlink.LinkSetUp(c.near))
	c.awaitCarrier()
	for _, a := range addrs {
		c.addAddr(a)
	}
	c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	must.OK(t, err)
	t.Cleanup(func() { unix.Close(c.fd) })
	must.OK(t, unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20))
	must.OK(t, unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: c.far.Attrs().Index}))
	must.OK(t, unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, new(unix.NsecToTimeval(must.Limit.Nanoseconds()))))
	return c
}

// mute keeps the kernel from sending at the far end: the test sends all packets that get lost
// there.
func (c *cable) mute() {
	c.t.Helper()
	must.OK(c.t, os.WriteFile("/proc/sys/net/ipv6/conf/"+c.far.Attrs().Name+"/disable_ipv6", []byte("1"), 0))
}

// awaitCarrier waits until both ends transmit. The kernel loses the packets of an end that came up
// without a carrier, until its worker thread has noticed that there is one
// (net/sched/sch_generic.c: dev_activate, and noop_enqueue).
func (c *cable) awaitCarrier() {
	c.t.Helper()
	must.Eventually(c.t, "both ends of the cable are up", func() bool {
		for _, end := range []netlink.Link{c.near, c.far} {
			if must.Get[netlink.Link](c.t)(netlink.LinkByIndex(end.Attrs().Index)).Attrs().OperState != netlink.OperUp {
				return false
			}
		}
		return true
	})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 } // the tests' hosts are little-endian

func (c *cable) addr(prefix string) *netlink.Addr {
	c.t.Helper()
	a, err := netlink.ParseAddr(prefix)
	must.OK(c.t, err)
	a.Flags = unix.IFA_F_NODAD
	return a
}

// addAddr adds an address, and waits until the kernel accepts packets to it. For IPv6
// a worker thread of the kernel does that.
func (c *cable) addAddr(prefix string) {
	c.t.Helper()
	a := c.addr(prefix)
	must.OK(c.t, netlink.AddrAdd(c.near, a))
	local := func(r netlink.Route) bool {
		return r.Type == unix.RTN_LOCAL && r.Dst != nil && r.Dst.IP.Equal(a.IP)
	}
	for {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			c.t.Fatal(err)
		}
		if slices.ContainsFunc(routes, local) {
			return
		}
	}
}

func (c *cable) delAddr(prefix string) { must.OK(c.t, netlink.AddrDel(c.near, c.addr(prefix))) }

// neighbour makes addr reachable at the far end.
func (c *cable) neighbour(addr netip.Addr) {
	must.OK(c.t, netlink.NeighSet(&netlink.Neigh{LinkIndex: c.near.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: addr.AsSlice(), HardwareAddr: c.far.Attrs().HardwareAddr}))
}

// next returns the next RoCEv2 packet that comes out of the far end.
func (c *cable) next() gopacket.Packet {
	c.t.Helper()
	buf := make([]byte, 65536)
	for {
		n, from, err := unix.Recvfrom(c.fd, buf, 0)
		if err != nil {
			c.t.Fatalf("no packet on the cable: %v", err)
		}
		if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
			continue // what the test itself put in
		}
		p := gopacket.NewPacket(buf[:n], layers.LayerTypeEthernet, gopacket.Default)
		if p.Layer(rocelayers.LayerTypeBTH) != nil {
			return p
		}
	}
}

// inject puts an IP packet into the far end. The queue behind the cable is that of a processor, and
// packets of other tests fill it, too. The kernel says whether a packet found no room there
// (drivers/net/veth.c: veth_xmit). Then inject repeats it.
func (c *cable) inject(ip []byte, dstMAC net.HardwareAddr) {
	c.t.Helper()
	frame := append([]byte{}, dstMAC...)
	frame = append(frame, c.far.Attrs().HardwareAddr...)
	if ip[0]>>4 == 4 {
		frame = append(frame, 0x08, 0x00)
	} else {
		frame = append(frame, 0x86, 0xdd)
	}
	frame = append(frame, ip...)
	must.Eventually(c.t, "the cable takes a packet", func() bool {
		before := c.lost()
		_, err := unix.Write(c.fd, frame)
		must.OK(c.t, err)
		return c.lost() == before
	})
}

// lost returns how many packets the far end did not transmit.
func (c *cable) lost() uint64 {
	c.t.Helper()
	return must.Get[netlink.Link](c.t)(netlink.LinkByIndex(c.far.Attrs().Index)).Attrs().Statistics.TxDropped
}
