package sim

import (
	"math/rand/v2"
	"net/netip"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// host is a port of the network and the connection manager behind it. A crash replaces
// the connection manager.
type host struct {
	w     *world
	index int
	addr  netip.Addr
	port  *simnet.Port
	rng   *rand.Rand
	m     *cm.Machine
	life  int // how often it crashed
	// The next queue pair's number. It begins again after a crash, so that a peer sees
	// numbers of connections that it still has.
	qpn   wire.QPN
	psn   uint32
	armed rxe.Time
}

const (
	service = uint64(0x0106_1c06)
	lookup  = uint64(0x0111_1c06)
)

func newHost(w *world, index int) *host {
	h := &host{w: w, index: index, addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(index + 1)})}
	h.rng = rand.New(rand.NewPCG(w.p.seed, 0x40+uint64(index)))
	h.port = w.net.NewPort(h.addr)
	h.port.Attach(h)
	h.boot()
	return h
}

// boot starts the connection manager and the program that listens.
func (h *host) boot() {
	h.m = cm.New(cm.Config{GUID: 0x0200_00ff_fe00_0001 + uint64(h.index), Random: h.rng.Uint32, Send: h.send})
	h.qpn = 0x100
	for _, s := range []uint64{service, lookup} {
		_, err := h.m.Listen(s, h.request)
		must(err)
	}
}

func (h *host) gid() wire.GID { return wire.GIDFromAddr(h.addr) }

func (h *host) now() rxe.Time { return h.w.net.Now() }

func (h *host) nextQPN() wire.QPN {
	h.qpn++
	return h.qpn
}

// send is the connection manager's way out: a UD SEND from queue pair 1 to queue pair 1.
func (h *host) send(to rxe.AHAttr, mad *wire.MAD) {
	h.w.check(mad)
	hd := wire.Headers{
		Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQP: wire.GSIQPN, PSN: wire.PSN(h.psn) & wire.PSNMask,
		SrcQP: wire.GSIQPN, QKey: wire.GSIQKey,
	}
	h.psn++
	b := append(hd.Append(make([]byte, 0, 512)), mad[:]...)
	b = append(b, make([]byte, wire.ICRCLen)...)
	route := wire.Route{
		Src: h.addr, Dst: to.DGID.Addr(), SrcPort: wire.UDPSourcePort(to.FlowLabel, 1, 1), TrafficClass: to.TrafficClass,
		HopLimit: to.HopLimit, FlowLabel: to.FlowLabel,
	}
	h.port.Send([]wire.Burst{{Route: &route, Buf: b, Seg: len(b)}})
}

// Receive implements simnet.Receiver.
func (h *host) Receive(batch []wire.Datagram) {
	for i := range batch {
		d := &batch[i]
		pkt, err := wire.Parse(d.Data)
		must(err)
		mad, err := wire.ParseMAD(pkt.Payload())
		must(err)
		from := rxe.AHAttr{DGID: wire.GIDFromAddr(d.Src), TrafficClass: d.TrafficClass, HopLimit: d.HopLimit, PortNum: 1}
		h.m.Receive(h.now(), from, mad)
	}
	h.arm()
}

// Expire implements simnet.Receiver.
func (h *host) Expire() {
	h.m.Expire(h.now())
	h.arm()
}

// arm sets the clock. It follows every call of the connection manager.
func (h *host) arm() {
	if at, ok := h.m.Deadline(); ok && at != h.armed {
		if at <= h.now() {
			failf("host %d: the next timer is due at %d, and it is %d", h.index, at, h.now())
		}
		h.armed = at
		h.port.Arm(at)
	}
}

// crash ends the host's programs and connection manager, and starts them again.
func (h *host) crash(c crash) {
	for _, u := range h.w.users {
		if u.h == h && !u.gone {
			h.w.stats.ended[u.conn.State()]++
			u.gone = true
		}
	}
	if c.kill {
		h.m.Close(h.now())
		h.empty()
	}
	h.life++
	h.boot()
	h.armed = 0
}

// empty checks that the connection manager remembers nothing.
func (h *host) empty() {
	if u := h.m.Usage(); u != (cm.Usage{}) {
		failf("host %d: left are %+v", h.index, u)
	}
	if at, ok := h.m.Deadline(); ok {
		failf("host %d: a timer is left, for %d", h.index, at)
	}
}
