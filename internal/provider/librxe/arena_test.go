package librxe

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// TestArenaWindows: many queues take few mappings, large ones are mapped alone, and
// windows without queues are unmapped.
func TestArenaWindows(t *testing.T) {
	b := quota.New(quota.Cost{})
	a, err := newArena(b, provider.NewOffsets())
	if err != nil {
		t.Fatal(err)
	}
	empty := b.Used()
	var rings []*cqRing
	for range 3 * windowSize / pageSize {
		rings = append(rings, must.Get[*cqRing](t)(newCQRing(a, 10)))
	}
	if n := len(a.windows); n != 3 {
		t.Errorf("%d windows for three windows full", n)
	}
	large := must.Get[*recvRing](t)(newRecvRing(a, 1<<17, 1))
	if n := len(a.windows); n != 4 {
		t.Errorf("%d windows, one more expected", n)
	}
	places := make(map[int64]bool)
	for i, r := range rings {
		if places[r.piece.off] {
			t.Fatal("two queues in one place")
		}
		places[r.piece.off] = true
		if !r.Push(&rxe.WC{ID: uint64(i)}) {
			t.Fatal("a new queue is full")
		}
	}
	for _, r := range rings {
		r.free()
	}
	large.free()
	large.free()
	if n := len(a.windows); n != 1 {
		t.Errorf("%d windows without queues", n)
	}
	if got := b.Used().Memory - empty.Memory; got != windowMemory {
		t.Errorf("%d bytes are taken without queues", got)
	}
	a.close(false)
	quotatest.WantGiven(t, b)
}

// TestArenaTakenBack: a program that keeps the file open keeps none of its memory, unless
// it has lost its device and may read its last completions.
func TestArenaTakenBack(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := quota.New(quota.Cost{})
		a := must.Get[*arena](t)(newArena(b, provider.NewOffsets()))
		must.Get[*cqRing](t)(newCQRing(a, 1000))
		held, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", a.fd()), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		a.close(keep)
		a.close(keep)
		quotatest.WantGiven(t, b)
		var st unix.Stat_t
		if err := unix.Fstat(int(held.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		if (st.Blocks > 0) != keep {
			t.Errorf("keep %v: %d blocks are left", keep, st.Blocks)
		}
	}
}

// TestStalledOnce: a doorbell that stalls again and again is resumed once, however long
// the threads that would do so are blocked.
func TestStalledOnce(t *testing.T) {
	b := quota.New(quota.Cost{})
	release := make(chan struct{})
	for range quota.MaxWorkers {
		b.Background(func() { <-release })
	}
	a := must.Get[*arena](t)(newArena(b, provider.NewOffsets()))
	defer a.close(false)
	r := must.Get[*sendRing](t)(newSendRing(a, rxe.QPCap{MaxSendWR: 4, MaxSendSGE: 1}))
	must.Eventually(t, "all workers are blocked", func() bool { return b.Waiting() == 0 })
	r.qp = newStation(t, rxedev.New(t), rxe.QPRC).qp
	for range 100 {
		r.piece.mu.Lock()
		r.on(sendNoRoom)
		r.piece.mu.Unlock()
		r.done(0)
	}
	if n := b.Waiting(); n != 1 {
		t.Errorf("%d calls wait for one doorbell", n)
	}
	close(release)
}
