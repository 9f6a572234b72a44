package verbsapi

import (
	"sync"

	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// Queue pairs of type QPRaw send and receive whole Ethernet frames, from the destination address to
// the end of the payload. The devices of a process are stations of one virtual Ethernet segment. A
// queue pair receives what its flows take, and nothing else. For the completion of a frame see
// WC.Frame.

// FrameSend is what the device does with a frame before it is sent.
//
//	Flags  FrameSendFlags
//	VLAN   uint16  // priority and number, for FrameInsertVLAN
//	MSS    uint16  // not 0: the payload is cut into TCP segments of at most so many bytes
//	Header uint16  // bytes before that payload
type FrameSend = rxe.FrameSend

// Bits of FrameSend.Flags.
const (
	FrameL3Sum      = rxe.FrameL3Sum
	FrameL4Sum      = rxe.FrameL4Sum
	FrameInsertVLAN = rxe.FrameInsertVLAN
)

// FrameInfo is what a completion says of a received frame (WC.Frame).
//
//	Flags  FrameFlags
//	L3, L4 uint8   // the types of the headers, as the port numbers them
//	VLAN   uint16  // priority and number, with FrameVLAN
//	Tag    uint32  // of the flow that matched, with FrameTag
//	Hash   uint32  // that chose the queue, with FrameHash
type FrameInfo = rxe.FrameInfo

// Bits of FrameInfo.Flags.
const (
	FrameL3OK = rxe.FrameL3OK
	FrameL4OK = rxe.FrameL4OK
	FrameVLAN = rxe.FrameVLAN
	FrameTag  = rxe.FrameTag
	FrameHash = rxe.FrameHash
)

// FlowType says when a flow applies (enum ibv_flow_attr_type).
type FlowType = ether.Type

// enum ibv_flow_attr_type.
const (
	FlowNormal           = ether.Normal
	FlowAllDefault       = ether.AllDefault
	FlowMulticastDefault = ether.MulticastDefault
	FlowSniffer          = ether.Sniffer
)

// FlowAttr says which frames a flow takes (struct ibv_flow_attr). Of several flows that match, the
// one with the lowest priority number takes the frame.
type FlowAttr struct {
	Type     FlowType
	Priority int
	DontTrap bool // the frame goes on to the next flow, too
	Drop     bool // nobody gets the frame
	Tag      uint32
	Specs    []FlowSpec // none: every frame
	Counters *CountersObject
}

// FlowSpec is a layer of headers that a flow asks for.
type FlowSpec interface{ add(m *ether.Match) }

// Headers, in the order of bytes of the wire.
type (
	EthHeader  = ether.Eth
	IPv4Header = ether.IPv4
	IPv6Header = ether.IPv6
	PortHeader = ether.Ports
)

// FlowEth, FlowIPv4, FlowIPv6, FlowTCP and FlowUDP match the bits of Value that Mask has.
type (
	FlowEth  struct{ Value, Mask EthHeader }
	FlowIPv4 struct{ Value, Mask IPv4Header }
	FlowIPv6 struct{ Value, Mask IPv6Header }
	FlowTCP  struct{ Value, Mask PortHeader }
	FlowUDP  struct{ Value, Mask PortHeader }
)

func (f FlowEth) add(m *ether.Match)  { m.Eth(f.Value, f.Mask) }
func (f FlowIPv4) add(m *ether.Match) { m.IPv4(f.Value, f.Mask) }
func (f FlowIPv6) add(m *ether.Match) { m.IPv6(f.Value, f.Mask) }
func (f FlowTCP) add(m *ether.Match)  { m.Ports(ether.ProtoTCP, f.Value, f.Mask) }
func (f FlowUDP) add(m *ether.Match)  { m.Ports(ether.ProtoUDP, f.Value, f.Mask) }

// FlowTo matches frames to a MAC address.
func FlowTo(mac [6]byte) FlowEth {
	return FlowEth{EthHeader{Dst: mac}, EthHeader{Dst: [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}}
}

// Flow gives frames to a queue pair (struct ibv_flow).
type Flow struct {
	ctx      *Context
	rule     ether.Rule
	target   *users // of the queue pair
	counters *CountersObject
	once     sync.Once
}

// CreateFlow has a QPRaw receive the frames that attr describes (ibv_create_flow).
func (q *QP) CreateFlow(attr FlowAttr) (*Flow, error) {
	if q.init.Type != QPRaw {
		return nil, invalid("CreateFlow", "qp", "is not of type QPRaw")
	}
	return q.ctx.createFlow(q.qp, &q.users, attr)
}

func (c *Context) createFlow(to segment.Receiver, target *users, attr FlowAttr) (*Flow, error) {
	const op = "CreateFlow"
	if err := c.verb(op, "create_flow"); err != nil {
		return nil, err
	}
	f := &Flow{ctx: c, target: target, rule: ether.Rule{Type: attr.Type, Priority: attr.Priority, DontTrap: attr.DontTrap, Drop: attr.Drop, Tag: attr.Tag, To: to}}
	for _, s := range attr.Specs {
		s.add(&f.rule.Match)
	}
	if f.rule.Match.Never() {
		return nil, invalid(op, "specs", "contradict each other")
	}
	if err := target.join(op, "qp"); err != nil {
		return nil, err
	}
	err := f.count(op, attr.Counters)
	if err == nil {
		if err = c.eng.station.AddFlow(&f.rule); err != nil {
			err = &OpError{Op: op, Arg: "attr", Why: err.Error(), Err: ErrInvalid}
		}
	}
	if err != nil {
		f.leave()
		return nil, err
	}
	return own(c, op, kindFlow, f)
}

func (f *Flow) count(op string, by *CountersObject) (err error) {
	if by == nil {
		return nil
	}
	if f.rule.Count, err = by.join(f.ctx, op); err == nil {
		f.counters = by
	}
	return err
}

func (f *Flow) leave() {
	f.target.leave()
	if f.counters != nil {
		f.counters.users.leave()
	}
}

// Destroy ends the flow (ibv_destroy_flow). A second Destroy does nothing.
func (f *Flow) Destroy() error {
	return f.ctx.destroy("DestroyFlow", "destroy_flow", kindFlow, f, func() error {
		f.destroyNow()
		return nil
	})
}

func (f *Flow) destroyNow() {
	f.once.Do(func() {
		f.ctx.eng.station.RemoveFlow(&f.rule)
		f.leave()
	})
}

// Activate takes a QPRaw from RESET to RTS.
func (q *QP) Activate() error {
	for _, to := range []QPState{QPInit, QPRTR, QPRTS} {
		attr := QPAttr{State: to, PortNum: 1}
		if err := q.Modify(&attr, rxe.RequiredMask(q.init.Type, to-1, to)); err != nil {
			return err
		}
	}
	return nil
}

// MAC returns the Ethernet address of the device.
func (c *Context) MAC() [6]byte { return c.eng.station.MAC() }

// RawCounters returns the counters of raw frames: name and value.
func (c *Context) RawCounters() []rxe.Counter { return c.eng.station.Counters.List() }
