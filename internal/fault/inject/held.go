package inject

import (
	"slices"
	"sync"
	"sync/atomic"
)

// held has the packets that others of their flow must overtake.
type held[T any] struct {
	n     atomic.Int64 // packets
	mu    sync.Mutex   // below
	flows map[flow][]*waiting[T]
}

type waiting[T any] struct {
	left uint64 // packets that must still pass
	item T
}

// none reports whether nothing is held.
func (h *held[T]) none() bool { return h.n.Load() == 0 }

// hold holds an item until by packets of the flow have passed. The function that it returns takes
// the item out; it reports false if the item has gone already. It is nil if too many are held.
func (h *held[T]) hold(f flow, by uint64, item T) (take func() bool) {
	w := &waiting[T]{left: max(by, 1), item: item}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.flows == nil {
		h.flows = make(map[flow][]*waiting[T])
	}
	if len(h.flows[f]) >= maxHeld {
		return nil
	}
	h.flows[f] = append(h.flows[f], w)
	h.n.Add(1)
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		i := slices.Index(h.flows[f], w)
		if i >= 0 {
			h.keep(f, slices.Delete(h.flows[f], i, i+1))
			h.n.Add(-1)
		}
		return i >= 0
	}
}

// passed counts a packet of the flow, and returns the items that go on behind it.
func (h *held[T]) passed(f flow) (free []T) {
	if h.none() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.flows[f]
	kept := list[:0]
	for _, w := range list {
		if w.left--; w.left > 0 {
			kept = append(kept, w)
			continue
		}
		free = append(free, w.item)
	}
	if len(free) > 0 {
		clear(list[len(kept):])
		h.keep(f, kept)
		h.n.Add(int64(-len(free)))
	}
	return free
}

func (h *held[T]) keep(f flow, list []*waiting[T]) {
	if len(list) == 0 {
		delete(h.flows, f)
		return
	}
	h.flows[f] = list
}
