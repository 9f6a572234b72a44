package rxe

// PD is a protection domain: objects of different domains do not work together.
type PD struct {
	dev      *Device
	children int  // guarded by dev.mu
	dead     bool // likewise
}

// AllocPD makes a protection domain (ibv_alloc_pd).
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	if err := d.claim("AllocPD", &d.live.PD, d.limits.MaxPD, nil); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.pds[pd] = struct{}{}
	d.mu.Unlock()
	return pd, nil
}

// Dealloc frees the domain (ibv_dealloc_pd). ErrBusy while a region, window,
// address handle, SRQ or QP of it exists.
func (pd *PD) Dealloc() error {
	d := pd.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case pd.dead:
		return opErr("DeallocPD", "pd", ErrClosed)
	case pd.children != 0:
		return opErr("DeallocPD", "pd", ErrBusy)
	}
	pd.dead = true
	delete(d.pds, pd)
	d.live.PD--
	return nil
}

// Device is the device that the domain belongs to.
func (pd *PD) Device() *Device { return pd.dev }
