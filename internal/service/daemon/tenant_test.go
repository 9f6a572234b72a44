package daemon

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/trap"
)

// The programs of one user share what there is for a user, and get it back.
func TestUserMemory(t *testing.T) {
	end := make(chan struct{})
	opened := make(chan error)
	s := startTest(t, Config{UserMemory: 256 << 10}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
		for err := error(nil); err == nil; {
			var f trap.File
			if f, err = cfg.Host.Open(&tree.Node{DeviceName: "rxe0"}, trap.Credentials{}); err == nil {
				defer f.Close()
			} else {
				opened <- err
			}
		}
		<-end
		return nil
	})
	first, second := s.attached(t), s.attached(t)
	for range 2 {
		if err := <-opened; !errors.Is(err, unix.ENOMEM) {
			t.Errorf("open without end: %v", err)
		}
	}
	close(end)
	for _, c := range []*proto.Client{first, second} {
		if err := c.Questions(nil, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	eventually(t, "nothing is left of the user", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tenants.sweep()
		return len(s.tenants.byID) == 0
	})
}

func TestTenants(t *testing.T) {
	all := newTenants(0)
	if all.limit.Memory < leastUserMemory || all.limit.Files < 1 {
		t.Errorf("limits %+v", all.limit)
	}
	one := all.of(1)
	if all.of(1) != one || all.of(2) == one {
		t.Error("users are confused")
	}
	one.connections++
	all.sweep()
	if all.byID[1] != one || all.byID[2] != nil {
		t.Errorf("after a sweep: %v", all.byID)
	}
	one.connections--
	all.sweep()
	if len(all.byID) != 0 || one.budget.Used() != (quota.Cost{}) {
		t.Errorf("at the end: %v", all.byID)
	}
}

// A user cannot take all descriptors with connections.
func TestConnections(t *testing.T) {
	s := startTest(t, Config{}, nil)
	var held []*proto.Client
	for range maxConnectionsPerUser {
		held = append(held, s.dial(t))
	}
	eventually(t, "all are connected", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		u := s.tenants.byID[uint32(os.Getuid())]
		return u != nil && u.connections == len(held)
	})
	if _, err := s.dial(t).Status(); !errors.Is(err, proto.ErrLimit) && !errors.Is(err, proto.ErrEnding) {
		t.Errorf("one connection more: %v", err)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "the connections are free again", func() bool {
		_, err := s.dial(t).Status()
		return err == nil
	})
}

func TestRecvWithin(t *testing.T) {
	a, b, err := proto.Pair()
	if err != nil {
		t.Fatal(err)
	}
	one, err := proto.NewConn(a)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := proto.NewConn(b)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var r proto.Reply
	if _, err := one.RecvWithin(&r, time.Nanosecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("from a silent peer: %v", err)
	}
	if err := other.Send(proto.Reply{Question: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.RecvWithin(&r, time.Hour); err != nil {
		t.Errorf("from one that speaks: %v", err)
	}
}
