package quota_test

import (
	"errors"
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

// keeper has taken something that nobody needs, and gives it back when it is asked to look.
type keeper struct {
	budget *quota.Budget
	kept   int
	asked  int
	give   func(*keeper) // instead of giving back at once
}

func (k *keeper) look() {
	k.asked++
	n := k.kept
	k.kept = 0
	for range n {
		if k.give != nil {
			k.give(k)
		} else {
			k.budget.Give(one)
		}
	}
}

var one = quota.Cost{Files: 1}

// TestBeforeRefusal: Take refuses nothing while somebody keeps what nobody needs: at once, in
// Background, or in a goroutine that was announced.
func TestBeforeRefusal(t *testing.T) {
	const all = 100
	for name, give := range map[string]func(*keeper){
		"at once":       nil,
		"in Background": func(k *keeper) { k.budget.Background(func() { k.budget.Give(one) }) },
		"announced": func(k *keeper) {
			done := k.budget.Giving()
			go func() {
				defer done()
				k.budget.Give(one)
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := quota.New(quota.Cost{Files: all})
			k := &keeper{budget: b, give: give}
			end := b.BeforeRefusal(k.look)
			for range 3 {
				for i := range all {
					if err := b.Take(one); err != nil {
						t.Fatalf("number %d: %v", i, err)
					}
				}
				if err := b.Take(one); !errors.Is(err, quota.ErrSpent) {
					t.Fatalf("one more than there is: %v", err)
				}
				k.kept = all
				if err := b.TakeNow(one); !errors.Is(err, quota.ErrSpent) || k.kept != all {
					t.Fatalf("TakeNow looks: %v", err)
				}
				b.MakeRoom(one)
				if k.kept != 0 {
					t.Fatal("MakeRoom does not look")
				}
				quotatest.WantGiven(t, b)
			}
			asked := k.asked
			end()
			if b.Take(quota.Cost{Files: all + 1}) == nil || k.asked != asked {
				t.Error("asked after the end")
			}
		})
	}
}

// TestOthersLook: when all users have taken everything, what another user keeps for nobody comes
// back.
func TestOthersLook(t *testing.T) {
	total := quota.NewTotal(quota.Cost{Files: 10})
	one, other := total.Share(quota.Cost{Files: 8}), total.Share(quota.Cost{Files: 8})
	k := &keeper{budget: other}
	defer other.BeforeRefusal(k.look)()
	for range 8 {
		if err := other.Take(quota.Cost{Files: 1}); err != nil {
			t.Fatal(err)
		}
		k.kept++
	}
	if err := one.Take(quota.Cost{Files: 9}); !errors.Is(err, quota.ErrSpent) || k.asked != 0 {
		t.Errorf("a user's own share: %v, another user was asked %d times", err, k.asked)
	}
	if err := one.Take(quota.Cost{Files: 8}); err != nil {
		t.Errorf("after another user has closed everything: %v", err)
	}
}

// TestHangs: what a program blocks holds up a refusal once, and not what comes back beside it.
func TestHangs(t *testing.T) {
	b := quota.New(quota.Cost{Files: 2})
	for range 2 {
		if err := b.Take(one); err != nil {
			t.Fatal(err)
		}
	}
	release := make(chan struct{})
	b.Background(func() { <-release; b.Give(one) })
	for range 1000 { // each would take 0.2 s
		if err := b.Take(one); !errors.Is(err, quota.ErrSpent) {
			t.Fatal(err)
		}
	}
	k := &keeper{budget: b, kept: 1, give: func(*keeper) { b.Background(func() { b.Give(one) }) }}
	defer b.BeforeRefusal(k.look)()
	if err := b.Take(one); err != nil {
		t.Errorf("beside something that hangs: %v", err)
	}
	b.Give(one)
	close(release)
	quotatest.WantGiven(t, b)
}
