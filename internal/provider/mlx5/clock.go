package mlx5

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/sys/clock"
)

// deviceClock is the adapter's clock: two pages that programs map. One has the time, in
// nanoseconds. An adapter's page is a register. This one is as old as the last look of the poller,
// or, if that sleeps, new: the guard has the program wait until it is. The time of a completion is
// exact, and not before that of the page.
//
// The other page says how to make host time of it (struct mlx5_ib_clock_info). Only one number
// there ever changes, so a program needs not wait for the end of a change.
type deviceClock struct {
	pages *pages
	once  sync.Once
	err   error
	set   atomic.Bool
	time  word
	host  word
	next  atomic.Int64 // when host time is compared again
}

// begin makes the pages, once.
func (d *deviceClock) begin(c *userContext) error {
	d.once.Do(func() { d.err = d.make(c) })
	return d.err
}

func (d *deviceClock) make(c *userContext) error {
	d.pages = c.pages
	for _, p := range []struct {
		command int64
		at      int
		to      *word
	}{{mmapCoreClock, coreClockAt, &d.time}, {mmapClockInfo, clockNsec, &d.host}} {
		at := p.command << mmapShift * provider.PageSize
		if err := c.offsets.TakeAt(at, provider.PageSize); err != nil {
			return err
		}
		list, err := c.pages.add(at, 1)
		if err != nil {
			return err
		}
		*p.to = word{list[0], p.at}
	}
	info := ClockInfo{Nsec: hostTime(), Mult: 1, Mask: math.MaxInt64, Overflow: uint64(clockCompared)}
	d.pages.access(func() { copy(d.host.page.mem, uapi.BytesOf(&info)) })
	d.set.Store(true)
	d.tick()
	return nil
}

// hostTime is what host time was when the clock was 0.
func hostTime() uint64 {
	now := time.Now()
	return uint64(now.UnixNano() - clock.At(now))
}

// tick sets the time.
func (d *deviceClock) tick() {
	if !d.set.Load() {
		return
	}
	now := clock.Now()
	compare := now > d.next.Load()
	d.pages.access(func() {
		b := timeBytes(now)
		atomic.StoreUint64(d.time.pointer(), *(*uint64)(unsafe.Pointer(&b)))
		if compare {
			atomic.StoreUint64(d.host.pointer(), hostTime())
		}
	})
	if compare {
		d.next.Store(now + int64(clockCompared))
	}
}

func timeBytes(now int64) (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], uint64(now))
	return b
}

// hide takes the page with the time out of all page tables, so that the guard hears of the next
// look at it. A program without a guard, as a
// forked child, sees the time of now.
func (d *deviceClock) hide() error {
	err := error(unix.EIO) // of pages that are lost
	d.pages.access(func() {
		page, b := make([]byte, provider.PageSize), timeBytes(clock.Now())
		copy(page[d.time.at:], b[:])
		err = unix.Fallocate(d.pages.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, d.time.page.offset, provider.PageSize)
		if err == nil {
			_, err = unix.Pwrite(d.pages.file, page, d.time.page.offset)
		}
	})
	return err
}

// tickFor returns what a completion queue calls before the program sees completions; nil if it does
// not want their time.
func (c *userContext) tickFor(flags uint32) func() {
	if flags&uapi.CQFlagTimestamp == 0 {
		return nil
	}
	return c.clock.tick
}
