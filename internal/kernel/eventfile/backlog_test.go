package eventfile

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBacklog drives it beside a plain list.
func TestBacklog(t *testing.T) {
	keys := []any{nil, new(objKey), new(objKey), new(objKey)}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var b backlog
		total := make(map[Event]int) // what is in it
		count := 0
		for range 300 {
			k := rng.IntN(len(keys))
			e := Event{Key: keys[k]}
			e.Record[0], e.Record[1] = byte(k), byte(rng.IntN(2))
			switch rng.IntN(6) {
			case 0, 1, 2:
				b.add(e)
				total[e]++
				count++
			case 3:
				b.addFirst(e)
				total[e]++
				count++
			case 4:
				var buf [48]byte
				n := b.encode(buf[:], 8)
				if n != 8*min(count, 6) {
					t.Fatalf("%d bytes of %d events", n, count)
				}
				for at := 0; at < n; at += 8 {
					e := Event{Key: keys[buf[at]]}
					copy(e.Record[:], buf[at:at+8])
					total[e]--
					count--
				}
				b.remove(n / 8)
			case 5:
				if k == 0 {
					continue
				}
				want := 0
				for e, n := range total {
					if e.Key == keys[k] {
						want += n
						delete(total, e)
					}
				}
				if got := b.drop(keys[k]); int(got) != want {
					t.Fatalf("%d dropped, there were %d", got, want)
				}
				count -= want
			}
			sum := 0
			for _, w := range b.order {
				sum += int(w.n)
			}
			if sum != count || b.empty() != (count == 0) {
				t.Fatalf("%d events, want %d", sum, count)
			}
			for e, n := range total {
				if n < 0 {
					t.Fatalf("%v came once too often", e)
				}
			}
		}
	}
}

// TestBacklogPortOrder: the last event of the port says how it is.
func TestBacklogPortOrder(t *testing.T) {
	var b backlog
	for _, typ := range []byte{9, 10, 9} {
		e := Event{}
		e.Record[0] = typ
		b.add(e)
	}
	var buf [24]byte
	b.encode(buf[:], 8)
	if got := []byte{buf[0], buf[8], buf[16]}; !slices.Equal(got, []byte{9, 10, 9}) {
		t.Errorf("order %v", got)
	}
}

func TestBacklogPortBound(t *testing.T) {
	var b backlog
	e := Event{}
	for i := range 3 * maxPortEvents {
		e.Record[0] = byte(i % 7)
		b.add(e)
	}
	if n := len(b.order); n != maxPortEvents || b.order[n-1].Event != e {
		t.Errorf("%d events, the last %v", n, b.order[n-1].Record)
	}
}
