package verbsapi

import (
	"math"
	"sync/atomic"

	"github.com/gorxe/gorxe/rxe"
)

// MR is a memory region (struct ibv_mr): a buffer that work requests may name, and
// peers too with a remote right. It keeps the buffer alive.
type MR struct {
	ctx *Context
	mr  *rxe.MR
	at  atomic.Pointer[mapping]
}

// mapping is what a registration names.
type mapping struct {
	buf    []byte
	base   uint64 // how work requests name the first byte
	access Access
}

// RegMR registers buf (ibv_reg_mr). Work requests name its bytes by their address,
// or from 0 on with AccessZeroBased; MR.SGE computes that. Buf may be empty. It
// returns ErrInvalid for remote write or atomic without AccessLocalWrite, and for
// unknown rights.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	return p.RegMRIOVA(buf, addrOf(buf), access)
}

// RegMRIOVA is RegMR with a chosen name for the first byte (ibv_reg_mr_iova).
func (p *PD) RegMRIOVA(buf []byte, iova uint64, access Access) (*MR, error) {
	const op = "RegMR"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "reg_mr"); err != nil {
		return nil, err
	}
	mr, err := p.pd.RegMR(newBufMemory(buf), addrOf(buf), uint64(len(buf)), iova, access)
	if err != nil {
		return nil, err
	}
	m := &MR{ctx: p.ctx, mr: mr}
	m.at.Store(newMapping(buf, iova, access))
	if err := p.ctx.own(op, kindMR, m); err != nil {
		return nil, err
	}
	return m, nil
}

// RegMRIOVA2 is RegMRIOVA, because optional rights need no second call here
// (ibv_reg_mr_iova2).
func (p *PD) RegMRIOVA2(buf []byte, iova uint64, access Access) (*MR, error) {
	return p.RegMRIOVA(buf, iova, access)
}

func newMapping(buf []byte, iova uint64, access Access) *mapping {
	if access&AccessZeroBased != 0 {
		iova = 0
	}
	return &mapping{buf: buf, base: iova, access: access}
}

// ReregFlags say what Rereg changes (enum ibv_rereg_mr_flags).
type ReregFlags = rxe.ReregFlags

// enum ibv_rereg_mr_flags.
const (
	ReregTranslation = rxe.ReregTranslation
	ReregPD          = rxe.ReregPD
	ReregAccess      = rxe.ReregAccess
)

// Rereg changes what flags name: the buffer, the domain, the rights (ibv_rereg_mr).
// It ignores other arguments. The keys may change. After an error the region is
// unchanged. It returns ErrBusy while a memory window is bound to the region.
func (m *MR) Rereg(flags ReregFlags, pd *PD, buf []byte, access Access) error {
	const op = "ReregMR"
	if err := m.ctx.verb(op, "rereg_mr"); err != nil {
		return err
	}
	var engPD *rxe.PD
	if flags&ReregPD != 0 {
		if err := pd.usable(op); err != nil {
			return err
		}
		engPD = pd.pd
	}
	to := *m.at.Load()
	if flags&ReregTranslation != 0 {
		to.buf, to.base = buf, addrOf(buf)
	}
	if flags&ReregAccess != 0 {
		to.access = access
	}
	err := m.mr.Rereg(flags, engPD, newBufMemory(to.buf), addrOf(to.buf), uint64(len(to.buf)), to.base, to.access)
	if err == nil {
		m.at.Store(newMapping(to.buf, to.base, to.access))
	}
	return err
}

// Dereg ends the registration (ibv_dereg_mr) once no transfer in it is in flight.
// It returns ErrBusy while a memory window is bound to the region.
func (m *MR) Dereg() error {
	if err := m.ctx.verb("DeregMR", "dereg_mr"); err != nil {
		return err
	}
	err := m.mr.Dereg()
	if err == nil {
		m.ctx.disown(kindMR, m)
	}
	return err
}

func (m *MR) destroyNow() { m.mr.Dereg() } //nolint:errcheck // may be gone already

// LKey returns the name of the region in this program's work requests; 0 after
// Dereg.
func (m *MR) LKey() LKey { return m.mr.LKey() }

// RKey returns the name of the region in a peer's work requests; 0 after Dereg.
func (m *MR) RKey() RKey { return m.mr.RKey() }

// Addr returns how work requests, and peers, name the first byte.
func (m *MR) Addr() uint64 { return m.at.Load().base }

// Bytes returns the buffer.
func (m *MR) Bytes() []byte { return m.at.Load().buf }

// Len returns the buffer's length in bytes.
func (m *MR) Len() int { return len(m.at.Load().buf) }

// SGE names n bytes from off on. It checks nothing: a range outside the region
// fails its work request with WCLocProtErr. A count that is too large for an SGE is
// cut to the largest.
func (m *MR) SGE(off, n int) SGE {
	length := uint64(max(n, 0))
	return SGE{Addr: m.Addr() + uint64(off), Length: uint32(min(length, math.MaxUint32)), LKey: m.LKey()}
}
