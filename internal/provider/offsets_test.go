package provider

import (
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOffsets: two owners, one with prescribed offsets, never have the same page.
func TestOffsets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		o := NewOffsets()
		var taken []offsets
		add := func(from, n int64) {
			at := offsets{from, from + n}
			for _, other := range taken {
				if at.overlaps(other) {
					t.Fatalf("%v overlaps %v", at, other)
				}
			}
			if from < 0 || from%PageSize != 0 || at.to > OffsetsEnd {
				t.Fatalf("range %v", at)
			}
			taken = append(taken, at)
		}
		for range 50 {
			n := 1 + rng.Int64N(20*PageSize)
			if rng.IntN(2) == 0 {
				from, err := o.Take(n)
				if err != nil {
					t.Fatal(err)
				}
				add(from, n)
			} else if from := rng.Int64N(300) * PageSize; o.TakeAt(from, n) == nil {
				add(from, n)
			}
		}
	}
}

// TestOffsetsEnd: what cannot be had is refused, and changes nothing.
func TestOffsetsEnd(t *testing.T) {
	o := NewOffsets()
	for _, at := range []offsets{{-PageSize, PageSize}, {PageSize + 1, PageSize}, {PageSize, 0}, {OffsetsEnd, 1}, {PageSize, OffsetsEnd}} {
		if err := o.TakeAt(at.from, at.to); err != unix.EINVAL {
			t.Errorf("%d bytes at %#x: %v", at.to, at.from, err)
		}
	}
	if err := o.TakeAt(OffsetsEnd-PageSize, PageSize); err != nil {
		t.Error(err)
	}
	if err := o.TakeAt(OffsetsEnd-PageSize, 1); err != unix.EBUSY {
		t.Errorf("the last page twice: %v", err)
	}
	for _, n := range []int64{0, -1, OffsetsEnd, OffsetsEnd + 1, 1<<63 - 1} {
		if _, err := o.Take(n); !errors.Is(err, unix.ENOMEM) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if from, err := o.Take(OffsetsEnd - PageSize - offsetsFirst); from != offsetsFirst || err != nil {
		t.Errorf("all the rest: %#x, %v", from, err)
	}
	if _, err := o.Take(1); err != unix.ENOMEM {
		t.Errorf("nothing is left: %v", err)
	}
}
