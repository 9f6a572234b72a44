package librxe

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/librxeclient"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
)

// exPoll is a poll with the extended API as librxe does it: ibv_start_poll,
// ibv_next_poll until ENOENT, ibv_end_poll (providers/rxe/rxe.c).
type exPoll struct {
	*librxeclient.Queue
	fixed bool // rdma-core 55 and newer
}

// Poll returns what the program takes for completions.
func (q exPoll) poll() (ids []uint64) {
	cur := q.Consumer()
	if cur == q.Producer() {
		return nil
	}
	for {
		ids = append(ids, librxeclient.At[librxeclient.WC](q.Elem(cur)).ID)
		next := (cur + 1) & q.Slots
		if next == q.Producer() {
			if !q.fixed {
				cur = next
			}
			q.SetConsumer(cur) // cq_next_poll
			q.SetConsumer((cur + 1) & q.Slots)
			return ids
		}
		cur = next
	}
}

// watched is a queue of seven completions that counts its overruns.
func watched(t *testing.T) (r *cqRing, c *librxeclient.Queue, overruns *int) {
	t.Helper()
	a := testArena(t)
	r = must.Get[*cqRing](t)(newCQRing(a, 7))
	overruns = new(int)
	r.overrun = func() { *overruns++ }
	return r, client(t, a, r), overruns
}

// TestOverrunRepaired: polls of an old librxe, with a repair before each, take every
// completion once, whatever number is put in between.
func TestOverrunRepaired(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		r, c, overruns := watched(t)
		q := exPoll{c, fixed}
		id, polls := uint64(0), 0
		for n := range 40 {
			first := id
			for range n % 7 { // a queue that was full is another test's
				if !r.Push(&rxe.WC{ID: id}) {
					t.Fatalf("fixed %v: full at %d", fixed, id)
				}
				id++
			}
			r.repair()
			got := q.poll()
			if len(got) != n%7 || len(got) > 0 && (got[0] != first || got[len(got)-1] != id-1) {
				t.Fatalf("fixed %v: %d to %d were put in, taken %v", fixed, first, id, got)
			}
			if len(got) > 0 {
				polls++
			}
		}
		r.repair()
		switch {
		case fixed && *overruns != 0:
			t.Errorf("%d overruns of a librxe that has none", *overruns)
		case !fixed && *overruns != polls:
			t.Errorf("%d overruns in %d polls", *overruns, polls)
		}
	}
}

// TestOverrunPush: what is put in behind an overrun is repaired with that, before it is
// seen, and is not an overflow of the queue.
func TestOverrunPush(t *testing.T) {
	r, c, overruns := watched(t)
	q := exPoll{c, false}
	for id := range uint64(30) {
		if !r.Push(&rxe.WC{ID: id}) {
			t.Fatalf("the queue overflows at %d", id)
		}
		if got := q.poll(); len(got) != 1 || got[0] != id {
			t.Fatalf("taken %v instead of %d", got, id)
		}
		if id == 0 && *overruns != 0 {
			t.Fatal("an overrun before the first poll")
		}
	}
	if *overruns != 29 {
		t.Errorf("%d overruns seen, and 29 before a push", *overruns)
	}
}

// TestOverrunSeenByOthers: the status, a resize and the end of a queue see an overrun.
func TestOverrunSeenByOthers(t *testing.T) {
	for name, look := range map[string]func(*testing.T, *cqRing){
		"status": func(t *testing.T, r *cqRing) {
			if n := r.Waiting(); n != 0 {
				t.Errorf("%d wait in an empty queue", n)
			}
		},
		"resize": func(t *testing.T, r *cqRing) {
			to := must.Get[*cqRing](t)(newCQRing(testArena(t), 1))
			if err := to.move(r); err != nil || to.prod != 0 {
				t.Errorf("%d moved, %v", to.prod, err)
			}
		},
	} {
		r, c, overruns := watched(t)
		r.Push(&rxe.WC{})
		exPoll{c, false}.poll()
		look(t, r)
		if *overruns != 1 {
			t.Errorf("%s: %d overruns", name, *overruns)
		}
	}
}

// TestConsumerFromNowhere: a program can write every index, in every state of the queue.
// It loses nothing that it did not claim. A possible index stays, and only an index that
// passed the producer's is an overrun.
func TestConsumerFromNowhere(t *testing.T) {
	for taken := range uint32(8) {
		for waiting := range uint32(8) {
			for moved := range uint32(8) {
				r, c, overruns := watched(t)
				for range taken {
					r.Push(&rxe.WC{})
					c.AdvanceConsumer()
				}
				r.repair()
				for range waiting {
					r.Push(&rxe.WC{})
				}
				to := taken + moved | 0xdeadbe<<8 // beyond the mask
				c.SetConsumer(to)
				r.repair()
				possible, past := moved <= waiting, moved-waiting
				ahead := !possible && past <= 8-moved
				want := to
				if ahead {
					want = r.prod
				}
				if got := c.Consumer(); got != want || (*overruns == 1) != ahead {
					t.Fatalf("taken %d, %d wait, moved by %d: index %#x, want %#x; %d overruns, want %v",
						taken, waiting, moved, got, want, *overruns, ahead)
				}
				if n := r.Waiting(); n < 0 || n > 7 {
					t.Fatalf("%d wait in a queue of seven", n)
				}
			}
		}
	}
}
