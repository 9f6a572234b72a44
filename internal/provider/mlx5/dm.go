package mlx5

import (
	"math"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/bufmem"
)

// deviceMemory is memory of the adapter (mlx5_ib_dm_memic): pages of the open's file, which the
// program maps, and which the engine accesses as memory that begins at 0.
type deviceMemory struct {
	*bufmem.Part
	c     *userContext
	size  uint64
	at    int64 // in the file
	index int
	users int // regions; guarded by userContext.mu
}

var _ provider.DeviceMemory = (*deviceMemory)(nil)

// adapterMemory is how much device memory all opens of an adapter have: together no more than one.
type adapterMemory struct {
	mu   sync.Mutex // a leaf lock
	used int        // pages
}

// take reserves n pages, or gives them back if n is negative.
func (m *adapterMemory) take(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > maxDMSize/provider.PageSize {
		return false
	}
	m.used += n
	return true
}

// dmPool says which pages of the file are device memory.
type dmPool struct {
	used [maxDMSize / provider.PageSize]bool
}

// take returns the index of n pages, and marks them.
func (p *dmPool) take(n int) (index int, ok bool) {
	for i := range p.used {
		if p.used[i] {
			index = i + 1
		}
		if i+1-index == n {
			p.set(index, n, true)
			return index, true
		}
	}
	return 0, false
}

func (p *dmPool) set(index, n int, used bool) {
	for i := range n {
		p.used[index+i] = used
	}
}

func allocDM(ctx provider.Context, k *dispatch.Call) error {
	c := ctx.(*userContext)
	typ, err := k.Attrs.Constant(attrDMType, math.MaxUint32)
	switch {
	case err != nil:
		return err
	case typ != 0:
		return errNotOffered // of steering
	}
	d, err := c.newDM(k.Attrs.U64(uapi.AttrAllocDMLength), k.Attrs.U32(uapi.AttrAllocDMAlignment))
	if err != nil {
		return err
	}
	k.Attrs.Object(uapi.AttrAllocDMHandle).Res = d
	if err := dispatch.Put(k, attrDMPage, uint16(d.index)); err != nil {
		return err
	}
	return dispatch.Put(k, attrDMOffset, uint64(0))
}

// newDM is mlx5_cmd_alloc_memic. Each memory begins with a page. alignment is a logarithm.
func (c *userContext) newDM(size uint64, alignment uint32) (*deviceMemory, error) {
	switch {
	case size == 0 || size > maxDMSize:
		return nil, refuse("length", "is 0, or more than max_dm_size", "ask for less")
	case alignment > uint32(bits.Len(provider.PageSize-1)):
		return nil, refuse("log_align_req", "is more than a page", "ask for less")
	}
	n := pagesOf(size)
	if !c.memory.take(n) {
		return nil, unix.ENOMEM
	}
	d, err := c.placeDM(size, n)
	if err != nil {
		c.memory.take(-n)
	}
	return d, err
}

// placeDM makes a memory of n pages.
func (c *userContext) placeDM(size uint64, n int) (*deviceMemory, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	index, ok := c.dms.take(n)
	if !ok {
		return nil, unix.ENOMEM
	}
	d := &deviceMemory{c: c, size: size, index: index, at: (mmapDevMem<<mmapShift + int64(index)) * provider.PageSize}
	cost := quota.Cost{Memory: int64(n) * provider.PageSize}
	err := c.budget.Take(cost)
	if err == nil {
		if d.Part, err = bufmem.MapPart(c.pages.file, d.at, n*provider.PageSize); err != nil {
			c.budget.Give(cost)
		}
	}
	if err != nil {
		c.dms.set(index, n, false)
		return nil, err
	}
	return d, nil
}

func pagesOf(size uint64) int { return int((size + provider.PageSize - 1) / provider.PageSize) }

// Destroy implements dispatch.Resource.
func (d *deviceMemory) Destroy(*dispatch.Object, bool) error {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if d.users > 0 {
		return unix.EBUSY
	}
	n := pagesOf(d.size)
	d.Close()
	// The file is this daemon's own, and holes need no memory.
	_ = unix.Fallocate(d.c.pages.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, d.at, int64(n)*provider.PageSize)
	d.c.dms.set(d.index, n, false)
	d.c.memory.take(-n)
	d.c.budget.Give(quota.Cost{Memory: int64(n) * provider.PageSize})
	return nil
}

// Size implements provider.DeviceMemory.
func (d *deviceMemory) Size() uint64 { return d.size }

// Hold implements provider.DeviceMemory.
func (d *deviceMemory) Hold() { d.use(1) }

// Release implements provider.DeviceMemory.
func (d *deviceMemory) Release() { d.use(-1) }

func (d *deviceMemory) use(change int) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.users += change
}

// queryDM tells an importing context where the memory is.
func queryDM(_ provider.Context, k *dispatch.Call) error {
	d := k.Attrs.Object(attrDMHandle).Res.(*deviceMemory)
	if err := dispatch.Put(k, attrDMQueryPage, uint16(d.index)); err != nil {
		return err
	}
	if err := dispatch.Put(k, attrDMQueryOffset, uint64(0)); err != nil {
		return err
	}
	return dispatch.Put(k, attrDMQueryLength, d.size)
}

// mapDMOperation is refused as by an adapter whose memory has no operations (memic_operations).
func mapDMOperation(provider.Context, *dispatch.Call) error { return errNotOffered }
