package verbsapi

import "github.com/gorxe/gorxe/rxe"

// PD is a protection domain (struct ibv_pd).
type PD struct {
	ctx *Context
	pd  *rxe.PD
}

// AllocPD makes a protection domain (ibv_alloc_pd).
func (c *Context) AllocPD() (*PD, error) {
	if err := c.verb("AllocPD", "alloc_pd"); err != nil {
		return nil, err
	}
	pd, err := c.sub.AllocPD()
	if err != nil {
		return nil, err
	}
	return own(c, "AllocPD", kindPD, &PD{ctx: c, pd: pd})
}

// Context returns the open device that the domain belongs to.
func (p *PD) Context() *Context { return p.ctx }

// Dealloc frees the domain (ibv_dealloc_pd). It returns ErrBusy while it has
// objects.
func (p *PD) Dealloc() error {
	return p.ctx.destroy("DeallocPD", "dealloc_pd", kindPD, p, p.pd.Dealloc)
}

func (p *PD) destroyNow() { p.pd.Dealloc() } //nolint:errcheck // another context's objects may hold it

// usable refuses a nil domain.
func (p *PD) usable(op string) error {
	if p == nil {
		return invalid(op, "pd", "is nil")
	}
	return nil
}
