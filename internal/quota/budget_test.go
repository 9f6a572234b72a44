package quota_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/quotatest"
)

func TestBudget(t *testing.T) {
	b := quota.New(quota.Cost{Memory: 100, Files: 3})
	for _, s := range []struct {
		take quota.Cost
		err  error
		used quota.Cost
	}{
		{quota.Cost{Memory: 60, Files: 1}, nil, quota.Cost{Memory: 60, Files: 1}},
		{quota.Cost{Memory: 41, Files: 1}, unix.ENOMEM, quota.Cost{Memory: 60, Files: 1}},
		{quota.Cost{Memory: 1 << 62}, unix.ENOMEM, quota.Cost{Memory: 60, Files: 1}},
		{quota.Cost{Memory: 40, Files: 3}, unix.EMFILE, quota.Cost{Memory: 60, Files: 1}},
		{quota.Cost{Memory: 40, Files: 2}, nil, quota.Cost{Memory: 100, Files: 3}},
		{quota.Cost{Memory: 1}, unix.ENOMEM, quota.Cost{Memory: 100, Files: 3}},
		{quota.Cost{Files: 1}, unix.EMFILE, quota.Cost{Memory: 100, Files: 3}},
	} {
		if err := b.Take(s.take); !errors.Is(err, s.err) || b.Used() != s.used {
			t.Errorf("take %+v: %v, used %+v", s.take, err, b.Used())
		}
	}
	b.Give(quota.Cost{Memory: 100, Files: 3})
	quotatest.WantGiven(t, b)
	none := quota.New(quota.Cost{})
	if err := b.Take(quota.Cost{Files: 4}); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("more than there is: %v", err)
	}
	if err := none.Take(quota.Cost{Memory: 1 << 62, Files: 1 << 30}); err != nil {
		t.Errorf("a budget without limits: %v", err)
	}
}

// At most MaxWorkers threads of one user are blocked. Further work of that user waits.
func TestBackground(t *testing.T) {
	b := quota.New(quota.Cost{})
	begun, release := make(chan struct{}), make(chan struct{})
	for range quota.MaxWorkers + 2 {
		b.Background(func() { begun <- struct{}{}; <-release })
	}
	for range quota.MaxWorkers {
		<-begun
	}
	if n := b.Waiting(); n != 2 {
		t.Errorf("%d pieces of work wait, want 2", n)
	}
	close(release)
	for range 2 {
		<-begun
	}
}
