package mlx5

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
)

// uar is a page of registers that the program asked for (mlx5_ib's UAR object). libmlx5 makes those
// of queue pairs and of thread domains, and one for its completion queues.
type uar struct {
	c        *userContext
	register *register
	offset   int64 // of mmap
	id       uint32
}

// uarPool has the pages that are mapped and not given out.
type uarPool struct {
	spare  []*page
	next   int64  // the offset of the first of them
	chunks int    // that were mapped
	made   uint32 // pages so far
	open   map[uint32]*uar
}

// makeGiven maps the pages of a libmlx5 that lets the device choose registers
// (MLX5_CTX_FLAGS_NO_KERN_DYN_UAR). It maps each of them at the offset of one of two commands, as
// MLX5_SHUT_UP_BF says.
func (c *userContext) makeGiven() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doorbells.given != nil {
		return nil // the program asked before
	}
	var lists [][]*page
	for _, command := range []int64{mmapRegular, mmapNC} {
		at := command << mmapShift * provider.PageSize
		if err := c.offsets.TakeAt(at, uarPages*provider.PageSize); err != nil {
			return err
		}
		list, err := c.pages.add(at, uarPages)
		if err != nil {
			return err
		}
		lists = append(lists, list)
	}
	c.doorbells.give(lists...)
	return nil
}

func allocUAR(ctx provider.Context, k *dispatch.Call) error {
	typ, err := k.Attrs.Constant(attrUARType, math.MaxUint32)
	if err != nil {
		return err
	}
	if typ > uarTypeNC {
		return errNotOffered
	}
	u, err := ctx.(*userContext).newUAR(typ)
	if err != nil {
		return err
	}
	k.Attrs.Object(attrUARHandle).Res = u
	if err := dispatch.Put(k, attrUAROffset, uint64(u.offset)); err != nil {
		return err
	}
	if err := dispatch.Put(k, attrUARLength, uint32(provider.PageSize)); err != nil {
		return err
	}
	return dispatch.Put(k, attrUARPage, u.id)
}

func (c *userContext) newUAR(typ uint64) (*uar, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.uars
	if len(p.spare) == 0 {
		if err := c.moreUARs(); err != nil {
			return nil, err
		}
	}
	p.made++
	// Threads ring the other type with one store each, and libmlx5 takes no lock for it.
	p.spare[0].single = typ == uarTypeBF
	u := &uar{c: c, offset: p.next, id: p.made, register: c.doorbells.addPage(p.spare[0])}
	p.spare, p.next = p.spare[1:], p.next+provider.PageSize
	if p.open == nil {
		p.open = make(map[uint32]*uar)
	}
	p.open[u.id] = u
	return u, nil
}

// moreUARs maps some more pages. mu is held.
func (c *userContext) moreUARs() error {
	p := &c.uars
	if p.chunks == mostUARs/uarPages {
		return unix.ENOMEM
	}
	if err := c.budget.Take(uarCost); err != nil {
		return err
	}
	at, err := c.offsets.Take(uarPages * provider.PageSize)
	if err == nil {
		p.spare, err = c.pages.add(at, uarPages)
	}
	if err != nil {
		c.budget.Give(uarCost)
		return err
	}
	p.next = at
	p.chunks++
	return nil
}

var uarCost = quota.Cost{Memory: uarPages * provider.PageSize}

// uarOf finds the page of registers that a queue pair names; nil: none, if the device chooses.
func (c *userContext) uarOf(req CreateQPReq) (*uar, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if req.Flags&qpFlagUARPage == 0 && c.doorbells.given != nil {
		return nil, nil
	}
	u := c.uars.open[req.BFRegIndex]
	if u == nil || req.Flags&qpFlagUARPage == 0 {
		return nil, refuse("bfreg_index", "is no page of registers", "allocate a page first")
	}
	return u, nil
}

// Destroy implements dispatch.Resource. The page stays mapped, and its offset is not used again:
// the program may have it mapped, too.
func (u *uar) Destroy(*dispatch.Object, bool) error {
	if !u.c.doorbells.removePage(u.register) {
		return unix.EBUSY
	}
	u.c.mu.Lock()
	defer u.c.mu.Unlock()
	delete(u.c.uars.open, u.id)
	return nil
}
