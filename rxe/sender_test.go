package rxe

import (
	"testing"
	"unsafe"

	"github.com/gorxe/gorxe/wire"
)

// TestReadRing: the ring of outstanding READs grows to any max_rd_atomic, and stays in order across
// the end of its storage.
func TestReadRing(t *testing.T) {
	var r readRing
	var want []psnRange
	next := wire.PSN(wire.PSNMask - 100)
	check := func() {
		t.Helper()
		if r.n != len(want) {
			t.Fatalf("%d ranges, want %d", r.n, len(want))
		}
		for i := range want {
			if *r.at(i) != want[i] {
				t.Fatalf("range %d of %d is %v, want %v", i, r.n, *r.at(i), want[i])
			}
		}
	}
	push := func(n int) {
		for range n {
			p := psnRange{next, next.Add(2)}
			next = next.Add(3)
			r.push(p)
			want = append(want, p)
		}
		check()
	}
	release := func(n int) {
		r.release(want[n-1].last.Next())
		want = want[n:]
		check()
	}
	push(3)
	release(2)
	push(4)
	release(3)
	push(253)
	if len(r.ring) != 256 {
		t.Errorf("%d ranges take %d entries", r.n, len(r.ring))
	}
	r.revoke(want[200].first)
	want, next = want[:200], want[200].first
	check()
	push(55)
	release(255)
	if r.n != 0 || len(r.ring) != 256 {
		t.Errorf("%d ranges are left of %d", r.n, len(r.ring))
	}
}

// TestQPSize: a queue pair and a work request stay small. With a thousand queue pairs, each message
// waits for the memory of its own.
func TestQPSize(t *testing.T) {
	if n := unsafe.Sizeof(QP{}); n > 2048 {
		t.Errorf("a QP takes %d bytes", n)
	}
	if n := unsafe.Sizeof(sendEntry{}); n > 160 {
		t.Errorf("a sendEntry takes %d bytes", n)
	}
}
