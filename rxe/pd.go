package rxe

import (
	"maps"
	"slices"
)

// PD is a protection domain. Objects of different domains do not work together.
type PD struct {
	dev      *Device
	sub      *Subdevice
	children int  // guarded by dev.mu
	dead     bool // guarded by dev.mu
	// chaos has the QPs with chaos that use regions of the domain: its own, and those that receive
	// from an SRQ of it; guarded by dev.mu.
	chaos map[*QP]struct{}
}

// addChaos notes that a QP with chaos uses regions of the domain. The caller holds dev.mu.
func (pd *PD) addChaos(q *QP) {
	if pd.chaos == nil {
		pd.chaos = make(map[*QP]struct{})
	}
	pd.chaos[q] = struct{}{}
}

// chaotic returns the QPs with chaos that use regions of the domain.
func (pd *PD) chaotic() []*QP {
	pd.dev.mu.Lock()
	defer pd.dev.mu.Unlock()
	return slices.Collect(maps.Keys(pd.chaos))
}

// AllocPD makes a protection domain with the device's own limits, as Whole().AllocPD does.
func (d *Device) AllocPD() (*PD, error) { return d.whole.AllocPD() }

// AllocPD makes a protection domain (ibv_alloc_pd).
func (s *Subdevice) AllocPD() (*PD, error) {
	d := s.dev
	pd := &PD{dev: d, sub: s}
	if err := s.claim("AllocPD", LimitPD, nil); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.pds[pd] = struct{}{}
	d.mu.Unlock()
	return pd, nil
}

// Dealloc frees the domain (ibv_dealloc_pd). It returns ErrBusy while it has a
// region, window, address handle, SRQ or QP.
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
	pd.sub.count(LimitPD, -1)
	return nil
}

// Users returns how many objects belong to the domain.
func (pd *PD) Users() int {
	pd.dev.mu.Lock()
	defer pd.dev.mu.Unlock()
	return pd.children
}

// Device returns the domain's device.
func (pd *PD) Device() *Device { return pd.dev }
