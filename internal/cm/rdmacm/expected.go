package rdmacm

import (
	"sync"

	"github.com/gorxe/gorxe/wire"
)

// expected has the comm IDs of a device's connections. Threads that receive packets look
// here which messages belong to a connection. Comm IDs are drawn at random, so a stranger
// cannot name one.
type expected struct {
	mu  sync.RWMutex // a leaf lock
	ids map[uint32]struct{}
}

func newExpected() *expected { return &expected{ids: make(map[uint32]struct{})} }

func (e *expected) add(commID uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids[commID] = struct{}{}
}

func (e *expected) remove(commID uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ids, commID)
}

// has reports whether a message is for one of the connections.
func (e *expected) has(mad *wire.MAD) bool {
	id, ok := wire.CMReceiver(mad)
	if !ok {
		return false
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, ok = e.ids[id]
	return ok
}
