package provider

import (
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// AddressCache makes address handles of addresses, and keeps those that were used last.
type AddressCache struct {
	Most    int            // handles
	mu      sync.Mutex     // a leaf lock except for those of the device
	entries []addressEntry // the one used last comes first
	closed  bool
}

type addressEntry struct {
	attr rxe.AHAttr
	ah   *rxe.AH
}

// Get returns a handle for attr, or nil.
func (c *AddressCache) Get(pd *rxe.PD, attr rxe.AHAttr) *rxe.AH {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.entries {
		if c.entries[i].attr == attr {
			c.front(i)
			return c.entries[0].ah
		}
	}
	if c.closed || pd == nil {
		return nil
	}
	ah, err := pd.CreateAH(attr)
	if err != nil {
		return nil // the request completes as one without an address
	}
	if len(c.entries) == c.Most {
		last := c.Most - 1
		_ = c.entries[last].ah.Destroy() // may be gone with the device
		c.entries = c.entries[:last]
	}
	c.entries = append(c.entries, addressEntry{attr, ah})
	c.front(len(c.entries) - 1)
	return ah
}

func (c *AddressCache) front(i int) {
	e := c.entries[i]
	copy(c.entries[1:i+1], c.entries[:i])
	c.entries[0] = e
}

// Close destroys the handles, and makes no more.
func (c *AddressCache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.entries {
		_ = c.entries[i].ah.Destroy() // may be gone with the device
	}
	c.entries, c.closed = nil, true
}
