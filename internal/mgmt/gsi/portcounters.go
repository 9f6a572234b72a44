package gsi

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// PortCounters are the counters of a port as performance management has them: somebody may
// set them back. PortCounters and PortCountersExtended of IBA 16.1 are counters of their own,
// and so each has its own start.
type PortCounters struct {
	read func() wire.PortCounters // since the port exists

	mu              sync.Mutex // a leaf lock
	start, startExt wire.PortCounters
}

// NewPortCounters makes the counters of a port from those that nobody sets back.
func NewPortCounters(read func() wire.PortCounters) *PortCounters { return &PortCounters{read: read} }

// Basic returns the counters of the attribute PortCounters.
func (p *PortCounters) Basic() wire.PortCounters { return p.since(&p.start) }

// Extended returns the counters of the attribute PortCountersExtended.
func (p *PortCounters) Extended() wire.PortCounters { return p.since(&p.startExt) }

// All returns every counter, those of traffic from PortCountersExtended, as sysfs shows them
// (drivers/infiniband/core/sysfs.c: get_perf_mad).
func (p *PortCounters) All() wire.PortCounters {
	c, x := p.Basic(), p.Extended()
	c.XmitData, c.RcvData, c.XmitPackets, c.RcvPackets = x.XmitData, x.RcvData, x.XmitPackets, x.RcvPackets
	return c
}

func (p *PortCounters) since(start *wire.PortCounters) wire.PortCounters {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.read()
	c.Sub(start)
	return c
}

// set has apply change the counters that count from start.
func (p *PortCounters) set(start *wire.PortCounters, apply func(*wire.PortCounters)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.read()
	want := now
	want.Sub(start)
	apply(&want)
	now.Sub(&want)
	*start = now
}
