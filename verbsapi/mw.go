package verbsapi

import "github.com/gorxe/gorxe/rxe"

// MW is a memory window (struct ibv_mw): a key of its own for a part of a region.
// Work requests bind and invalidate it.
type MW struct {
	ctx *Context
	mw  *rxe.MW
}

// enum ibv_mw_type.
const (
	MWType1 = rxe.MWType1
	MWType2 = rxe.MWType2
)

// MWBind is what BIND MW binds (struct ibv_mw_bind_info).
type MWBind struct {
	MW     *MW
	RKey   RKey // the window's next key, for type 2: IncRKey of its present one
	MR     *MR  // must have AccessMWBind
	Addr   uint64
	Length uint64 // bytes; 0 unbinds a window of type 1
	Access Access // remote rights, AccessZeroBased
}

// AllocMW makes a window that is not bound (ibv_alloc_mw).
func (p *PD) AllocMW(t MWType) (*MW, error) {
	const op = "AllocMW"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "alloc_mw"); err != nil {
		return nil, err
	}
	mw, err := p.pd.AllocMW(t)
	if err != nil {
		return nil, err
	}
	return own(p.ctx, op, kindMW, &MW{ctx: p.ctx, mw: mw})
}

// Dealloc unbinds and frees the window (ibv_dealloc_mw).
func (w *MW) Dealloc() error {
	return w.ctx.destroy("DeallocMW", "dealloc_mw", kindMW, w, w.mw.Dealloc)
}

func (w *MW) destroyNow() { w.mw.Dealloc() } //nolint:errcheck // may be gone already

// RKey is the window's present key, for the peer.
func (w *MW) RKey() RKey { return w.mw.RKey() }

// Type is 1 or 2.
func (w *MW) Type() MWType { return w.mw.Type() }

// IncRKey returns the key with the next of its 256 variants (ibv_inc_rkey). A
// window of type 2 may be bound with it next.
func IncRKey(k RKey) RKey { return k&^0xff | (k+1)&0xff }

// BindMW posts the binding of a window of type 1 (ibv_bind_mw). RKey returns the
// new key once the work request is posted.
func (q *QP) BindMW(id uint64, flags SendFlags, bind MWBind) error {
	const op = "BindMW"
	switch {
	case bind.MW == nil:
		return invalid(op, "mw", "is nil")
	case bind.MW.Type() != MWType1:
		return invalid(op, "mw", "is of type 2: post WRBindMW")
	}
	_, err := q.PostSend([]SendWR{{ID: id, Op: WRBindMW, Flags: flags, Bind: &bind}})
	return err
}
