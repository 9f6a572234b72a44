package trap

import (
	"encoding/binary"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/trap/notify"
)

// stacks knows where the stack pointer was in earlier writes. To ask the kernel takes 100 µs: it
// waits until the thread has left its processor (kernel/sched/core.c:wait_task_inactive), at each
// doorbell. librxe writes a doorbell from a variable of its stack. So the next call from the same
// place has the stack pointer as far from what it writes.
type stacks struct {
	known [stackPlaces]atomic.Pointer[stackPlace]
	next  atomic.Uint32
}

// stackPlace is a place that writes.
type stackPlace struct {
	pc    uint64
	above uint64 // how far above the stack pointer its data is
	// back is the address to which libc's write returns, which is so many bytes above the stack
	// pointer.
	back uint64
	at   int
}

// backOf finds the address to which a function returns, near the end of a stack: the first word
// that is large and does not point to the stack. If it is something else, places are recognized
// less often.
func backOf(s *kernel.Stack) (back uint64, at int) {
	for ; at < backBytes; at += wordBytes {
		back = binary.NativeEndian.Uint64(s.Bytes[at:])
		if back > leastAddress && back-s.SP > mostStack && s.SP-back > mostStack {
			break
		}
	}
	return back, at
}

// keep notes where the stack of a call is.
func (k *stacks) keep(call *notify.Call, s *kernel.Stack) {
	above := call.Args[1] - s.SP
	if call.NR != unix.SYS_WRITE || call.PC != s.PC || above >= uint64(len(s.Bytes)) {
		return
	}
	back, at := backOf(s)
	if at < backBytes {
		k.known[k.next.Add(1)%stackPlaces].Store(&stackPlace{pc: s.PC, above: above, back: back, at: at})
	}
}

// guess finds the stack of the call in hand as one from a known place, and reports whether it is
// one.
func (c *caller) guess(s *kernel.Stack, most int) bool {
	if c.r.n.NR != unix.SYS_WRITE {
		return false
	}
	for i := range c.r.s.stacks.known {
		at := c.r.s.stacks.known[i].Load()
		if at == nil || at.pc != c.r.n.PC {
			continue
		}
		buf := make([]byte, most)
		sp := c.r.n.Args[1] - at.above
		if c.Read(sp, buf) == nil && binary.NativeEndian.Uint64(buf[at.at:]) == at.back {
			s.PC, s.SP, s.Bytes = at.pc, sp, buf
			return true
		}
	}
	return false
}
