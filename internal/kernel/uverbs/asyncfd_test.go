package uverbs

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/cabi"
	"github.com/gorxe/gorxe/internal/test/must"
)

func TestAsyncFD(t *testing.T) {
	a := must.Get[*asyncFD](t)(newAsyncFD(quota.New(quota.Cost{})))
	t.Cleanup(a.Close)
	fd := reader(t, a.Pipe)
	qp := new(struct{ _ int })
	a.push(0x1122334455667788, 16, qp)
	a.push(1, 10, nil)
	a.push(1, 9, nil)
	a.push(0x1122334455667788, 5, qp)
	var b [64]byte
	if n, err := unix.Read(fd, b[:16]); n != 16 || err != nil ||
		binary.NativeEndian.Uint64(b[:]) != 0x1122334455667788 || binary.NativeEndian.Uint64(b[8:]) != 16 {
		t.Fatalf("read %d %v: %x", n, err, b[:16])
	}
	if n, _ := a.Forget(qp); n != 1 {
		t.Errorf("%d reported, 1 was read", n)
	}
	a.push(1, 10, nil)
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []byte{10, 9, 10} {
		if n, err := unix.Read(fd, b[:16]); n != 16 || err != nil || b[8] != want {
			t.Fatalf("read %d %v: %x, want event %d", n, err, b[:n], want)
		}
	}
}

// TestEventLayout: the offsets and sizes of the event records are what the kernel's
// headers say.
func TestEventLayout(t *testing.T) {
	const comp, async = "ib_uverbs_comp_event_desc", "ib_uverbs_async_event_desc"
	tests := []struct {
		expr string
		got  int
	}{
		{"sizeof(struct " + comp + ")", compEventSize},
		{cabi.Offset(comp, "cq_handle"), 0},
		{"sizeof(struct " + async + ")", asyncEventSize},
		{cabi.Offset(async, "element"), 0},
		{cabi.Offset(async, "event_type"), asyncEventType},
	}
	exprs := make([]string, len(tests))
	for i, tc := range tests {
		exprs[i] = tc.expr
	}
	for i, want := range cabi.Values(t, []string{"rdma/ib_user_verbs.h"}, exprs) {
		if tests[i].got != want {
			t.Errorf("%s is %d, not %d", tests[i].expr, want, tests[i].got)
		}
	}
}
