package verbsapi

import (
	"sync"

	"github.com/gorxe/gorxe/internal/segment/ether"
)

// CountersObject counts what flows take (struct ibv_counters). For the counters of the device see
// Context.Counters.
type CountersObject struct {
	ctx     *Context
	counter ether.Counter
	users   users // flows

	mu     sync.Mutex // a leaf lock, with that of users
	points []ether.Point
	fixed  bool // a flow has had it
}

// CounterDescription is enum ibv_counter_description.
type CounterDescription uint8

// enum ibv_counter_description.
const (
	CounterPackets CounterDescription = iota
	CounterBytes
)

// CreateCounters makes a counters object (ibv_create_counters).
func (c *Context) CreateCounters() (*CountersObject, error) {
	const op = "CreateCounters"
	if err := c.verb(op, "create_counters"); err != nil {
		return nil, err
	}
	return own(c, op, kindCounters, &CountersObject{ctx: c})
}

// AttachPointFlow says that the value with an index counts frames, or their bytes
// (ibv_attach_counters_point_flow). It precedes the first flow that has the object, and the flow is
// named there (FlowAttr.Counters). ErrBusy afterwards.
func (o *CountersObject) AttachPointFlow(what CounterDescription, index int) error {
	const op = "AttachCountersPointFlow"
	switch {
	case what > CounterBytes:
		return &OpError{Op: op, Arg: "counter_desc", Err: ErrNotSupported}
	case index < 0 || index >= mostCounts:
		return invalid(op, "index", "is not from 0 to 32,767")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.fixed:
		return &OpError{Op: op, Arg: "counters", Why: "what they count is fixed since their first flow", Err: ErrBusy}
	case len(o.points) == mostCounts:
		return &OpError{Op: op, Arg: "counters", Why: "have too many points", Err: ErrLimit}
	}
	o.points = append(o.points, ether.Point{Bytes: what == CounterBytes, Index: uint32(index)})
	return nil
}

// join has a flow use the object.
func (o *CountersObject) join(c *Context, op string) (*ether.Counter, error) {
	if o.ctx != c {
		return nil, invalid(op, "counters", "are of another context")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.points) == 0 {
		return nil, invalid(op, "counters", "count nothing: call AttachPointFlow first")
	}
	if err := o.users.join(op, "counters"); err != nil {
		return nil, err
	}
	o.fixed = true
	return &o.counter, nil
}

// Read fills in the values (ibv_read_counters). The greatest index must have a place there.
// ErrInvalid while no flow has the object.
func (o *CountersObject) Read(values []uint64) error {
	const op = "ReadCounters"
	if err := o.ctx.verb(op, "read_counters"); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.users.any() {
		return invalid(op, "counters", "no flow has them")
	}
	clear(values)
	if !o.counter.Read(o.points, values) {
		return invalid(op, "ncounters", "has no place for the greatest index")
	}
	return nil
}

// Destroy frees the object (ibv_destroy_counters). ErrBusy while a flow has it.
func (o *CountersObject) Destroy() error {
	return o.ctx.destroy("DestroyCounters", "destroy_counters", kindCounters, o, o.destroy)
}

func (o *CountersObject) destroy() error {
	return o.users.end("DestroyCounters", "counters", func() error { return nil })
}

func (o *CountersObject) destroyNow() { o.destroy() } //nolint:errcheck // nothing uses it
