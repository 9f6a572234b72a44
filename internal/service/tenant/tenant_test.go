package tenant

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
)

func limits(files int) Limits {
	return Limits{User: quota.Cost{Memory: 1 << 30, Files: files}, All: quota.Cost{Memory: 3 << 30, Files: 3 * files}}
}

func TestTenants(t *testing.T) {
	all := New(limits(100))
	one, err := all.Greet(1)
	if err != nil {
		t.Fatal(err)
	}
	if all.Of(1) != one || all.Of(2) == one {
		t.Error("users are confused")
	}
	if n := all.Len(); n != 1 {
		t.Errorf("%d users have something, want 1", n)
	}
	if err := one.Enter(); err != nil {
		t.Fatal(err)
	}
	one.Leave()
	one.Dismiss()
	if n := all.Len(); n != 0 || one.Budget.Used() != (quota.Cost{}) {
		t.Errorf("at the end %d users, %+v", n, one.Budget.Used())
	}
}

// Connections and sessions are taken of the user's descriptors. So a daemon with 1,024 of
// them, like one with more, has some for others.
func TestDescriptors(t *testing.T) {
	all := New(Find(Memory{Bytes: 1 << 30}, 0, openLimit()-reserveFiles-960))
	for uid := range uint32(3) {
		sessions := 0
		var err error
		for err == nil {
			var u *Tenant
			if u, err = all.Greet(uid); err == nil {
				if err = u.Enter(); err == nil {
					sessions++
				}
			}
		}
		if !errors.Is(err, ErrLimit) || !errors.Is(err, unix.EMFILE) || !errors.Is(err, quota.ErrSpent) {
			t.Errorf("user %d, after %d sessions: %v", uid, sessions, err)
		}
		if want := 960 / 4 / (connectionCost.Files + sessionCost.Files); sessions != want {
			t.Errorf("user %d has %d sessions, want %d", uid, sessions, want)
		}
	}
	// All of them together leave the reserve.
	var err error
	for uid := uint32(3); err == nil; uid++ {
		_, err = all.Greet(uid)
	}
	if !errors.Is(err, quota.ErrTotalSpent) {
		t.Errorf("users without end: %v", err)
	}
	if used := all.budget.Used().Files; used != 960 {
		t.Errorf("%d descriptors are taken of 960", used)
	}
}

func TestMaxima(t *testing.T) {
	all := New(limits(1 << 20))
	var u *Tenant
	for range MaxConnections {
		var err error
		if u, err = all.Greet(7); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.Greet(7); !errors.Is(err, ErrLimit) {
		t.Errorf("one connection more: %v", err)
	}
	for range MaxSessions {
		if err := u.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Enter(); !errors.Is(err, ErrLimit) {
		t.Errorf("one session more: %v", err)
	}
}
