package verbsapi

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// AH is an address handle (struct ibv_ah): the destination of UD messages.
type AH struct {
	ctx *Context
	ah  *rxe.AH
}

// CreateAH makes an address handle (ibv_create_ah).
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	const op = "CreateAH"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "create_ah"); err != nil {
		return nil, err
	}
	ah, err := p.pd.CreateAH(attr)
	if err != nil {
		return nil, err
	}
	return own(p.ctx, op, kindAH, &AH{ctx: p.ctx, ah: ah})
}

// Query returns what the handle was made from.
func (a *AH) Query() AHAttr { return a.ah.Query() }

// Destroy frees the handle (ibv_destroy_ah). Messages posted with it before are
// sent.
func (a *AH) Destroy() error {
	return a.ctx.destroy("DestroyAH", "destroy_ah", kindAH, a, a.ah.Destroy)
}

func (a *AH) destroyNow() { a.ah.Destroy() } //nolint:errcheck // may be gone already

// GRHLen is the size, in bytes, of the header at the beginning of a UD receive
// buffer.
const GRHLen = wire.GRHLen

// GRH is the content of the first GRHLen bytes of a received UD message (struct
// ibv_grh). Over IPv4 the last 20 of them hold the IPv4 header.
type GRH struct {
	SGID, DGID   GID    // IPv4 addresses in their mapped form
	FlowLabel    uint32 // 20 bits; 0 over IPv4
	TrafficClass uint8
	HopLimit     uint8
}

// ParseGRH reads the GRH at the beginning of a UD receive buffer. It returns
// ErrInvalid if there is none.
func ParseGRH(buf []byte) (GRH, error) {
	src, dst, class, hop, err := wire.ParseGRH(buf)
	if err != nil {
		return GRH{}, invalid("ParseGRH", "buf", err.Error())
	}
	g := GRH{SGID: wire.GIDFromAddr(src), DGID: wire.GIDFromAddr(dst), TrafficClass: class, HopLimit: hop}
	if src.Is6() {
		g.FlowLabel = (uint32(buf[1])<<16 | uint32(buf[2])<<8 | uint32(buf[3])) & 0xfffff
	}
	return g, nil
}

// InitAHFromWC returns the attributes of a handle for the sender of a received
// UD message (ibv_init_ah_from_wc). Buf is the receive buffer.
func (c *Context) InitAHFromWC(port uint8, wc *WC, buf []byte) (AHAttr, error) {
	const op = "InitAHFromWC"
	switch {
	case c.isClosed():
		return AHAttr{}, closed(op, "context")
	case port != 1:
		return AHAttr{}, invalid(op, "port", "the device has port 1 only")
	case wc == nil || wc.Flags&WCGRH == 0:
		return AHAttr{}, invalid(op, "wc", "is not of a receive with GRH")
	}
	grh, err := ParseGRH(buf)
	if err != nil {
		return AHAttr{}, err
	}
	index, err := c.gidIndex(grh.DGID)
	if err != nil {
		return AHAttr{}, err
	}
	return AHAttr{
		DGID:         grh.SGID,
		SGIDIndex:    index,
		FlowLabel:    grh.FlowLabel,
		TrafficClass: grh.TrafficClass,
		HopLimit:     replyHopLimit,
		PortNum:      port,
	}, nil
}

// replyHopLimit is libibverbs' 0xff. The hop limit left in a packet does not tell
// how far an answer has to go.
const replyHopLimit = 0xff

// gidIndex finds the index of the address that a message was sent to. A message to
// a group is answered from the first address of its IP version.
func (c *Context) gidIndex(dgid GID) (uint8, error) {
	table := c.eng.dev.GIDs()
	for i, g := range table {
		same := g == dgid
		if dgid.IsMulticast() {
			same = !g.IsZero() && g.Addr().Is4() == dgid.Addr().Is4()
		}
		if same {
			return uint8(i), nil
		}
	}
	return 0, invalid("InitAHFromWC", "grh.dgid", "is not in the GID table")
}

// CreateAHFromWC makes a handle for the sender of a received UD message
// (ibv_create_ah_from_wc).
func (p *PD) CreateAHFromWC(wc *WC, buf []byte, port uint8) (*AH, error) {
	if err := p.usable("CreateAHFromWC"); err != nil {
		return nil, err
	}
	attr, err := p.ctx.InitAHFromWC(port, wc, buf)
	if err != nil {
		return nil, err
	}
	return p.CreateAH(attr)
}
