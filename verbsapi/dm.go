package verbsapi

import (
	"sync"

	"github.com/gorxe/gorxe/internal/sys/bufmem"
	"github.com/gorxe/gorxe/rxe"
)

// MaxDMSize is how much device memory all contexts of a device have (max_dm_size), in bytes.
const MaxDMSize = 128 << 10

// maxDMAlign is the largest alignment of device memory, as a logarithm: a page.
const (
	maxDMAlign = 12
	dmBase     = 64 // bytes, of which a small memory has as many
)

// DM is device memory (struct ibv_dm): memory that has no address in the program. Work requests
// name it through a region, and MemcpyTo and MemcpyFrom copy. Here it is the host's, too.
type DM struct {
	ctx *Context
	buf []byte

	mu    sync.Mutex
	users int // regions
	freed bool
}

// AllocDM allocates length bytes of device memory, which are zero (ibv_alloc_dm). alignment is a
// logarithm. It returns ErrFull if the device has no more.
func (c *Context) AllocDM(length, alignment int) (*DM, error) {
	const op = "AllocDM"
	if err := c.verb(op, "alloc_dm"); err != nil {
		return nil, err
	}
	switch {
	case length < 1 || length > MaxDMSize:
		return nil, invalid(op, "length", "is not between 1 and MaxDMSize")
	case alignment < 0 || alignment > maxDMAlign:
		return nil, invalid(op, "alignment", "is not between 0 and 12")
	}
	if !c.eng.takeDM(length) {
		return nil, &rxe.OpError{Op: op, Arg: "length", Why: "is more than the device has left", Fix: "free device memory first", Err: ErrFull}
	}
	// Small buffers of Go need not be aligned, as atomics want them.
	return own(c, op, kindDM, &DM{ctx: c, buf: make([]byte, max(length, dmBase))[:length]})
}

// takeDM reserves device memory, or gives it back if n is negative.
func (e *sharedEngine) takeDM(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dmUsed+n > MaxDMSize {
		return false
	}
	e.dmUsed += n
	return true
}

// Free gives the memory back (ibv_free_dm). It returns ErrBusy while a region of it exists.
func (d *DM) Free() error {
	const op = "FreeDM"
	return d.ctx.destroy(op, "free_dm", kindDM, d, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case d.freed:
			return closed(op, "dm")
		case d.users > 0:
			return &rxe.OpError{Op: op, Arg: "dm", Why: "has regions", Fix: "deregister them first", Err: ErrBusy}
		}
		d.give()
		return nil
	})
}

// give gives the memory back. mu is held.
func (d *DM) give() {
	d.freed = true
	d.ctx.eng.takeDM(-len(d.buf))
}

func (d *DM) destroyNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.freed {
		d.give()
	}
}

// MemcpyTo copies into the memory, from offset on (ibv_memcpy_to_dm).
func (d *DM) MemcpyTo(offset uint64, from []byte) error {
	to, err := d.part("MemcpyToDM", offset, len(from))
	if err == nil {
		copy(to, from)
	}
	return err
}

// MemcpyFrom copies out of the memory, from offset on (ibv_memcpy_from_dm).
func (d *DM) MemcpyFrom(to []byte, offset uint64) error {
	from, err := d.part("MemcpyFromDM", offset, len(to))
	if err == nil {
		copy(to, from)
	}
	return err
}

func (d *DM) part(op string, offset uint64, n int) ([]byte, error) {
	d.mu.Lock()
	freed := d.freed
	d.mu.Unlock()
	switch {
	case freed:
		return nil, closed(op, "dm")
	case offset > uint64(len(d.buf)) || n > len(d.buf)-int(offset):
		return nil, invalid(op, "dm_offset and length", "the range ends behind the memory")
	}
	return d.buf[offset:][:n], nil
}

// RegDMMR registers length bytes of device memory from offset on (ibv_reg_dm_mr). Work requests
// name the first one 0, and access must have AccessZeroBased.
func (p *PD) RegDMMR(dm *DM, offset uint64, length int, access Access) (*MR, error) {
	const op = "RegDMMR"
	if err := p.usable(op); err != nil {
		return nil, err
	}
	if err := p.ctx.verb(op, "reg_dm_mr"); err != nil {
		return nil, err
	}
	switch {
	case dm == nil || dm.ctx != p.ctx:
		return nil, invalid(op, "dm", "is not of this context")
	case access&AccessZeroBased == 0:
		return nil, invalid(op, "access", "lacks AccessZeroBased")
	case length < 0:
		return nil, invalid(op, "length", "is negative")
	}
	buf, err := dm.part(op, offset, length)
	if err != nil {
		return nil, err
	}
	dm.use(1)
	mr, err := p.register(op, bufmem.NewSlice(buf), bufmem.Addr(buf), &mapping{dm: dm, length: length, access: access})
	if err != nil {
		dm.use(-1)
	}
	return mr, err
}

// use counts a region. d may be nil: the region is not of device memory.
func (d *DM) use(change int) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users += change
}
