package uverbs

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/quotatest"
	"github.com/gorxe/gorxe/rxe"
)

// TestRemove: one program loses the device, and its budget gets each cost back once. Another
// program keeps what it has.
func TestRemove(t *testing.T) {
	d, engine := newDevice(t)
	other := &user{opened(t, d), forms[0]}
	other.makeAll()
	kept := engine.Objects()
	budget := quota.New(quota.Cost{})
	u := &user{openedOf(t, d, budget), forms[0]}
	u.makeAll()
	u.f.Remove()
	u.f.Remove()
	if n := engine.Objects(); n != kept {
		t.Errorf("after the removal there are %+v, want %+v", n, kept)
	}
	if err := u.try(verb{cmd: uapi.CmdAllocPD, req: bytesFrom(uapi.AllocPDReq{}), resp: 4}); err != unix.EIO {
		t.Errorf("a call of the program: %v", err)
	}
	other.allocPD()
	if again, err := d.Open(budget); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
	u.exit()
	quotatest.WantGiven(t, budget) // by a thread of the budget
}

// TestRemoveDuringCalls: a program registers memory and ends regions while it loses the device,
// twice at once, while it closes its file, and while all lose the device. Nothing is left.
func TestRemoveDuringCalls(t *testing.T) {
	for range 20 {
		d, engine := newDevice(t)
		budget := quota.New(quota.Cost{})
		u := &user{openedOf(t, d, budget), forms[0]}
		pd := u.allocPD()
		var all sync.WaitGroup
		all.Go(func() {
			for range 50 {
				if err := u.try(regMRVerb(pd, programData, 4096, rxe.AccessLocalWrite)); err == unix.EIO {
					return
				}
			}
		})
		for _, end := range []func(){u.f.Remove, u.f.Remove, u.f.Close, d.Close} {
			all.Go(end)
		}
		all.Wait()
		u.exit()
		// Both on threads of their own.
		must.Eventually(t, "the objects end", func() bool { return engine.Objects() == rxe.ObjectCounts{} })
		quotatest.WantGiven(t, budget)
	}
}
