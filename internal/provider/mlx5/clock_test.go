package mlx5

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// read is what a program reads of the clock (mlx5_read_clock, mlx5dv_get_clock_info).
func (d *deviceClock) read() (now uint64, info ClockInfo) {
	d.pages.access(func() {
		now = binary.BigEndian.Uint64(d.time.page.mem[coreClockAt:])
		info = uapi.Load[ClockInfo](d.host.page.mem)
	})
	return now, info
}

// TestClock: the clock runs in a program without queues, host time follows from it, and it is not
// before a completion's time when the program sees the completion.
func TestClock(t *testing.T) {
	p := newProgram(t, rxedev.New(t))
	first, info := p.ctx.clock.read()
	must.Eventually(t, "the clock runs", func() bool { now, _ := p.ctx.clock.read(); return now > first })
	if info.Sign&1 != 0 || info.Mult != 1 || info.Shift != 0 || info.Cycles != 0 {
		t.Errorf("%+v", info)
	}
	now, info := p.ctx.clock.read()
	if off := time.Since(time.Unix(0, int64(info.Nsec+now))).Abs(); off > time.Minute {
		t.Errorf("host time is %v away", off)
	}

	a, b := two(t, rxe.QPRC)
	a.recv.mem.Ring().(*cqRing).tick = a.ctx.tickFor(uapi.CQFlagTimestamp)
	if b.ctx.tickFor(0) != nil {
		t.Error("a queue without the time of completions sets the clock")
	}
	for range 100 {
		a.receive(a.piece(4096, 64))
		b.post(opSend, signaled, 0, inlined([]byte("x")))
		at := a.recv.buf + uint64(a.recv.cons&(a.recv.entries-1)+1)*uint64(a.recv.size) - cqeSize
		a.recv.one()
		if stamp, now := binary.BigEndian.Uint64(a.bytes(at+cqeTimestamp, 8)), first; stamp < now || stamp > uint64(clock.Now()) {
			t.Fatalf("the completion's time is %d", stamp)
		} else if now, _ := a.ctx.clock.read(); now < stamp {
			t.Fatalf("the clock is at %d, and the completion of %d", now, stamp)
		}
		b.send.one()
	}
}
