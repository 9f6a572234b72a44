package verbsapi

import (
	"errors"
	"math"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/sys/bufmem"
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
	buf    []byte         // nil if dmabuf is set
	dmabuf *bufmem.DMABuf // nil: buf is registered
	dm     *DM            // likewise
	length int
	base   uint64 // how work requests name the first byte
	access Access
}

// RegMR registers buf (ibv_reg_mr). Work requests name its bytes by their address,
// or from 0 on with AccessZeroBased; MR.SGE computes that. Buf may be empty. It
// returns ErrInvalid for remote write or atomic without AccessLocalWrite, and for
// unknown rights.
func (p *PD) RegMR(buf []byte, access Access) (*MR, error) {
	return p.RegMRIOVA(buf, bufmem.Addr(buf), access)
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
	return p.register(op, bufmem.NewSlice(buf), bufmem.Addr(buf), newMapping(buf, iova, access))
}

// register makes the region that at says, at addr of mem.
func (p *PD) register(op string, mem rxe.Memory, addr uint64, at *mapping) (*MR, error) {
	mr, err := p.pd.RegMR(mem, addr, uint64(at.length), at.base, at.access)
	if err != nil {
		return nil, err
	}
	m := &MR{ctx: p.ctx, mr: mr}
	m.at.Store(at)
	return own(p.ctx, op, kindMR, m)
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
	return &mapping{buf: buf, length: len(buf), base: iova, access: access}
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
	old := m.at.Load()
	if old.dm != nil {
		return notSupported(op)
	}
	to := *old
	if flags&ReregTranslation != 0 {
		to = mapping{buf: buf, length: len(buf), base: bufmem.Addr(buf), access: to.access}
	}
	if flags&ReregAccess != 0 {
		to.access = access
	}
	if to.access&AccessZeroBased != 0 {
		to.base = 0
	}
	err := m.mr.Rereg(flags, engPD, bufmem.NewSlice(to.buf), bufmem.Addr(to.buf), uint64(to.length), to.base, to.access)
	if err != nil {
		return err
	}
	m.at.Store(&to)
	m.ctx.watch.changed(m)
	if to.dmabuf == nil {
		old.dmabuf.Close()
	}
	return nil
}

// Dereg ends the registration (ibv_dereg_mr) once no transfer in it is in flight.
// It returns ErrBusy while a memory window is bound to the region.
func (m *MR) Dereg() error {
	return m.ctx.destroy("DeregMR", "dereg_mr", kindMR, m, func() error {
		err := m.mr.Dereg()
		if err == nil {
			at := m.at.Load()
			at.dmabuf.Close()
			at.dm.use(-1)
		}
		return err
	})
}

func (m *MR) destroyNow() {
	// With another error than that of a bound window, the region is gone already.
	if err := m.mr.Dereg(); !errors.Is(err, ErrBusy) {
		m.at.Load().dmabuf.Close()
	}
}

// LKey returns the name of the region in this program's work requests; 0 after
// Dereg.
func (m *MR) LKey() LKey { return m.mr.LKey() }

// RKey returns the name of the region in a peer's work requests; 0 after Dereg.
func (m *MR) RKey() RKey { return m.mr.RKey() }

// Addr returns how work requests, and peers, name the first byte.
func (m *MR) Addr() uint64 { return m.at.Load().base }

// Bytes returns the buffer; nil for a dma-buf and device memory.
func (m *MR) Bytes() []byte { return m.at.Load().buf }

// Len returns the buffer's length in bytes.
func (m *MR) Len() int { return m.at.Load().length }

// SGE names n bytes from off on. It checks nothing: a range outside the region
// fails its work request with WCLocProtErr. A count that is too large for an SGE is
// cut to the largest.
func (m *MR) SGE(off, n int) SGE {
	length := uint64(max(n, 0))
	return SGE{Addr: m.Addr() + uint64(off), Length: uint32(min(length, math.MaxUint32)), LKey: m.LKey()}
}
