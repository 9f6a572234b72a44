package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/trap"
)

// The programs of one user share what there is for a user, and get it back.
func TestUserMemory(t *testing.T) {
	begin, end := make(chan struct{}), make(chan struct{})
	opened := make(chan error)
	s := startTest(t, Config{UserMemory: 2 << 20}, func(_ context.Context, _ *os.File, cfg trap.ServeConfig) error {
		<-begin
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
	close(begin)
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
	must.Eventually(t, "nothing is left of the user", func() bool { return s.tenants.Len() == 0 })
}

// The users of a daemon in a control group share what the group may have, and the log says so.
func TestShareOfControlGroup(t *testing.T) {
	const limit, name = 64 << 20, "/sys/fs/cgroup/unit/memory.max"
	const threads, pids = 400, "/sys/fs/cgroup/unit/pids.max"
	root := fstest.MapFS{
		"proc/self/cgroup":    {Data: []byte("0::/unit\n")},
		"proc/self/mountinfo": {Data: []byte("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")},
		name[1:]:              {Data: []byte(strconv.Itoa(limit) + "\n")},
		pids[1:]:              {Data: []byte(strconv.Itoa(threads) + "\n")},
	}
	var out sink
	s := startTest(t, Config{root: root, Log: out.logger(slog.LevelInfo)}, nil)
	budget := s.tenants.Of(nobody).Budget
	if err := budget.Take(quota.Cost{Memory: limit/4 + 1}); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("more than a quarter: %v", err)
	}
	if err := budget.Take(quota.Cost{Memory: limit / 4}); err != nil {
		t.Errorf("a quarter: %v", err)
	}
	budget.Give(quota.Cost{Memory: limit / 4})
	if err := budget.Take(quota.Cost{Threads: threads/4 + 1}); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("more than a quarter of the threads: %v", err)
	}
	if lines := out.lines(fmt.Sprintf(" memory=%d ", limit/4)); len(lines) != 1 ||
		!strings.Contains(lines[0], fmt.Sprintf(" of=%d bound=%s ", limit, name)) || !strings.Contains(lines[0], pids) {
		t.Errorf("the log says %q", out.lines("share"))
	}
}

// A user cannot take all descriptors with connections.
func TestConnections(t *testing.T) {
	s := startTest(t, Config{}, nil)
	var held []*proto.Client
	for range tenant.MaxConnections {
		held = append(held, s.dial(t))
	}
	must.Eventually(t, "all are connected", func() bool { return s.used().Files == len(held) })
	if _, err := s.dial(t).Status(); !errors.Is(err, proto.ErrLimit) && !errors.Is(err, proto.ErrEnding) {
		t.Errorf("one connection more: %v", err)
	}
	for _, c := range held {
		c.Close()
	}
	must.Eventually(t, "the connections are free again", func() bool {
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

// The descriptors that the daemon keeps of the tree's files are not the users', and not of the
// reserve with which it refuses them.
func TestShareWithoutFiles(t *testing.T) {
	s := startTest(t, Config{}, nil)
	const reserve = 64
	left := tenant.OpenLimit() - s.contents.Room() - reserve
	if err := s.tenants.Of(nobody).Budget.Take(quota.Cost{Files: left/4 + 1}); !errors.Is(err, quota.ErrSpent) {
		t.Errorf("more than a quarter of what is left: %v", err)
	}
}
