package ucma

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
)

// Config says what a Device works with.
type Config struct {
	Manager *rdmacm.Manager
	Budget  *quota.Budget // pays for files and ids; nil: there is no limit
	Log     *slog.Logger  // nil: nothing is logged
	// Numbers counts the ids of all Devices that a netlink reader sees together; nil: one of
	// its own.
	Numbers *atomic.Uint32
}

// Device is /dev/infiniband/rdma_cm as the programs of one session see it. The numbers of
// ids and of multicast groups belong to it, so an id can move between the files of a
// session (MIGRATE_ID), and other sessions cannot name it.
type Device struct {
	cm     *rdmacm.Manager
	budget *quota.Budget
	log    *slog.Logger
	track  *atomic.Uint32

	closing sync.WaitGroup // ids whose RDMA device was removed

	// mu guards the tables, and the events of all files. Handlers take it while they hold
	// the Manager's lock, so a thread that holds mu must not call the Manager.
	mu     sync.Mutex
	files  map[fdid.ID]*File
	ids    table[*cmID]
	groups table[*group]
}

// New makes the device.
func New(cfg Config) *Device {
	d := &Device{cm: cfg.Manager, budget: cfg.Budget, log: cfg.Log, track: cfg.Numbers, files: make(map[fdid.ID]*File)}
	if d.track == nil {
		d.track = new(atomic.Uint32)
	}
	if d.budget == nil {
		d.budget = quota.New(quota.Cost{})
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Open opens the device for owner. ENOMEM or EMFILE if the budget is spent.
func (d *Device) Open(owner *rdmacm.Owner) (*File, error) {
	level, err := eventfile.NewLevel(d.budget, eventfile.ReadOnly)
	if err != nil {
		return nil, fmt.Errorf("rdma_cm: %w", err)
	}
	f := &File{Level: level, dev: d, owner: owner, ready: func() {}}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[level.ID()] = f
	return f, nil
}

// file returns the open file with that identity; nil if there is none.
func (d *Device) file(id fdid.ID) *File {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[id]
}

// idCost is an estimate of what an id takes, with its connection and a few events.
var idCost = quota.Cost{Memory: 8 << 10}

// roomOfID is what an id takes together with the one of package rdmacm.
var roomOfID = quota.Cost{Memory: 10 << 10}

// eventCost is what an event takes.
var eventCost = quota.Cost{Memory: 512}

// table gives numbers, the lowest free one first as in the kernel (xa_alloc). librdmacm
// keeps ids in an array of 65536.
type table[T comparable] struct {
	entries []T
	used    []bool
	free    int // no number below is free
}

// reserve returns a free number. find returns the zero value for it.
func (t *table[T]) reserve() uint32 {
	for t.free < len(t.used) && t.used[t.free] {
		t.free++
	}
	n := t.free
	if n == len(t.used) {
		var none T
		t.used, t.entries = append(t.used, false), append(t.entries, none)
	}
	t.used[n] = true
	t.free++
	return uint32(n)
}

func (t *table[T]) set(n uint32, v T) { t.entries[n] = v }

// find returns the entry with a number, or the zero value.
func (t *table[T]) find(n uint32) (v T) {
	if int64(n) < int64(len(t.entries)) {
		v = t.entries[n]
	}
	return v
}

// remove frees a number.
func (t *table[T]) remove(n uint32) {
	var none T
	t.entries[n], t.used[n] = none, false
	t.free = min(t.free, int(n))
}

// hide makes find return the zero value for a number, which stays in use.
func (t *table[T]) hide(n uint32) {
	var none T
	t.entries[n] = none
}

// errSpent is the answer of commands if the budget is spent.
const errSpent = unix.ENOMEM
