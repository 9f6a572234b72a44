package uverbs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/rxe"
)

func (u *user) try(v verb) error {
	u.reset()
	_, err := u.form.call(u.program, v)
	return err
}

// TestBudgetOfFile: what a program makes is taken of its user's budget, and given
// back when it destroys it, when it closes the device, and after the device
// itself has gone.
func TestBudgetOfFile(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, _ *rxe.Device) {
		b := quota.New(quota.Cost{})
		u = &user{openedOf(t, d, b), u.form}
		before := b.Used()
		pd := u.allocPD()
		cq, _ := u.createCQ(10, -1, 1)
		filled := b.Used()
		if filled.Memory < before.Memory+2*objectMemory+pageSize {
			t.Errorf("a PD and a CQ take %d bytes", filled.Memory-before.Memory)
		}
		qp, _ := u.createQP(rxe.QPRC, pd, cq.CQHandle)
		with := b.Used()
		if with.Memory < filled.Memory+qpMemory+2*pageSize {
			t.Errorf("a QP takes %d bytes", with.Memory-filled.Memory)
		}
		u.call(destroyVerb(uapi.CmdDestroyQP, qp.QPHandle))
		if b.Used() != filled {
			t.Errorf("%+v after destroying the QP, %+v before it was made", b.Used(), filled)
		}
		u.makeAll()
		u.f.Close()
		quotatest.WantGiven(t, b)

		u = &user{openedOf(t, d, b), u.form}
		u.makeAll()
		d.Close()
		u.f.Close()
		quotatest.WantGiven(t, b)
	})
}

// TestBudgetSpent: beyond the budget there is ENOMEM, for one user and not for
// another, and a failure takes nothing.
func TestBudgetSpent(t *testing.T) {
	eachForm(t, func(t *testing.T, u *user, d *Device, _ *rxe.Device) {
		b := quota.New(quota.Cost{Memory: 4 << 20, Files: 8})
		one := &user{openedOf(t, d, b), u.form}
		other := &user{openedOf(t, d, quota.New(quota.Cost{Memory: 4 << 20})), u.form}
		pd := one.allocPD()
		cq, _ := one.createCQ(10, -1, 1)
		req := qpReq(rxe.QPRC, pd, cq.CQHandle)
		req.MaxSendWR = 1 << 20
		before := b.Used()
		if err := one.try(createQPVerb(req)); err != unix.ENOMEM {
			t.Errorf("a queue of 1 Mi requests: %v", err)
		}
		if b.Used() != before {
			t.Errorf("a refused QP takes %+v", b.Used())
		}
		made := 0
		for err := error(nil); err == nil && made < 1<<16; made++ {
			err = one.try(verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4})
			if err != nil && err != unix.ENOMEM {
				t.Fatalf("PD %d: %v", made, err)
			}
		}
		if most := (4 << 20) / objectMemory; made > most {
			t.Errorf("%d PDs, at most %d should fit", made, most)
		}
		if _, err := d.Open(b); !errors.Is(err, unix.ENOMEM) {
			t.Errorf("open: %v", err)
		}
		other.makeAll()
	})
}

func TestBudgetFiles(t *testing.T) {
	d, _ := newDevice(t)
	b := quota.New(quota.Cost{Files: 2 * eventfile.PipeCost.Files})
	u := &user{openedOf(t, d, b), forms[0]} // takes one for itself, and its async file
	if err := u.try(verb{cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4}); err != unix.EMFILE {
		t.Errorf("a channel too many: %v", err)
	}
}

// TestArenaWindows: many queues take few mappings, large ones are mapped alone, and
// what is freed is unmapped.
func TestArenaWindows(t *testing.T) {
	b := quota.New(quota.Cost{})
	a, err := newArena(b)
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

// TestArenaTakenBack: a program that keeps the file keeps no memory of the
// daemon's with it, unless it has lost its device and may want to look.
func TestArenaTakenBack(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := quota.New(quota.Cost{})
		a := must.Get[*arena](t)(newArena(b))
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

// TestStalledOnce: a doorbell that stalls again and again is taken up once, however
// long those who would do so are held up.
func TestStalledOnce(t *testing.T) {
	b := quota.New(quota.Cost{})
	release := make(chan struct{})
	for range quota.MaxWorkers {
		b.Background(func() { <-release })
	}
	a := must.Get[*arena](t)(newArena(b))
	defer a.close(false)
	r := must.Get[*sendRing](t)(newSendRing(a, rxe.QPCap{MaxSendWR: 4, MaxSendSGE: 1}))
	for b.Waiting() > 0 { // until all workers are held up
		runtime.Gosched()
	}
	qp := newStation(t, testDevice(t), rxe.QPRC).qp
	for range 100 {
		r.piece.mu.Lock()
		r.stalled = &stalledBell{qp, nil}
		r.piece.mu.Unlock()
		r.done(0)
	}
	if n := b.Waiting(); n != 1 {
		t.Errorf("%d calls wait for one doorbell", n)
	}
	close(release)
}
