package uverbs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// countersRes is a counters object, which flow rules share.
type countersRes struct {
	counter ether.Counter
	users   atomic.Int32 // flow rules

	mu     sync.Mutex // a leaf lock
	values []ether.Point
}

// Destroy is uverbs_free_counters.
func (r *countersRes) Destroy(_ *dispatch.Object, closing bool) error {
	if !closing && r.users.Load() > 0 {
		return rxe.ErrBusy
	}
	return nil
}

// bind says what the object counts, which its first rule does, and no other.
func (r *countersRes) bind(values []ether.Point) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(values) > 0 && len(r.values) > 0:
		return kernel.Refuse(unix.EINVAL, "counters", "what they count is fixed since their first rule", "attach points before that")
	case len(values) == 0 && len(r.values) == 0:
		return kernel.Refuse(unix.EINVAL, "counters", "count nothing yet", "call ibv_attach_counters_point_flow")
	case len(values) > 0:
		r.values = values
	}
	return nil
}

// read returns an array of n values (counters.c: mlx5_ib_read_counters).
func (r *countersRes) read(n int) ([]uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]uint64, n)
	if !r.counter.Read(r.values, out) {
		return nil, kernel.Refuse(unix.EINVAL, "ncounters", "is less than the object counts", "give room for the greatest index")
	}
	return out, nil
}

func ioctlCreateCounters(k *call) error {
	k.Attrs.Object(uapi.AttrDestroyHandle).Res = new(countersRes)
	return nil
}

// ioctlReadCounters is UVERBS_METHOD_COUNTERS_READ.
func ioctlReadCounters(k *call) error {
	r := k.Attrs.Object(uapi.AttrReadCountersHandle).Res.(*countersRes)
	if r.users.Load() == 0 {
		return kernel.Refuse(unix.EINVAL, "counters", "no flow rule has them", "give them to ibv_create_flow")
	}
	if _, err := k.Attrs.Flags(uapi.AttrReadCountersFlags, uapi.ReadCountersCached); err != nil {
		return err
	}
	buf := k.Attrs.Output(uapi.AttrReadCountersBuff)
	values, err := r.read(buf.Size / 8)
	if err != nil {
		return err
	}
	b := make([]byte, 0, buf.Size)
	for _, v := range values {
		b = append(b, uapi.BytesOf(&v)...)
	}
	return k.Answer(&buf, b)
}
