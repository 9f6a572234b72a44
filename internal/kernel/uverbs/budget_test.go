package uverbs

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
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
		if filled.Memory < before.Memory+2*objectMemory+memPage {
			t.Errorf("a PD and a CQ take %d bytes", filled.Memory-before.Memory)
		}
		qp, _ := u.createQP(rxe.QPRC, pd, cq.CQHandle)
		with := b.Used()
		if with.Memory < filled.Memory+qpMemory+2*memPage {
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

// TestClosedChannels: channels that the program has closed leave their descriptors to those of
// another open, and to another program of the user.
func TestClosedChannels(t *testing.T) {
	const room = 20
	d, _ := newDevice(t)
	b := quota.New(quota.Cost{Files: 2*(1+eventfile.PipeCost.Files) + room*eventfile.PipeCost.Files})
	users := []*user{{openedOf(t, d, b), forms[0]}, {openedOf(t, d, b), forms[0]}}
	create := func(u *user) error {
		return u.try(verb{cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4})
	}
	for round := range 6 {
		u := users[round%2]
		for n := range room {
			if err := create(u); err != nil {
				t.Fatalf("round %d: channel %d: %v", round, n, err)
			}
		}
		if err := create(u); err != unix.EMFILE {
			t.Fatalf("round %d: a channel too many: %v", round, err)
		}
		u.closeChannels()
	}
}

// closeChannels closes all descriptors but the first, which is that of the asynchronous events.
func (p *program) closeChannels() {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := slices.Min(slices.Collect(maps.Keys(p.fds)))
	for fd, real := range p.fds {
		if fd != first {
			_ = unix.Close(real)
			delete(p.fds, fd)
		}
	}
}

func TestBudgetFiles(t *testing.T) {
	d, _ := newDevice(t)
	b := quota.New(quota.Cost{Files: 2 * eventfile.PipeCost.Files})
	u := &user{openedOf(t, d, b), forms[0]} // takes one for itself, and its async file
	if err := u.try(verb{cmd: uapi.CmdCreateCompChannel, req: bytesFrom(uapi.CreateCompChannelReq{}), resp: 4}); err != unix.EMFILE {
		t.Errorf("a channel too many: %v", err)
	}
}
