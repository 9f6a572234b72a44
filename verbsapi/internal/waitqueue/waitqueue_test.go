package waitqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

func newQueue(t *testing.T, items ...int) *Queue[int] {
	t.Helper()
	q := new(Queue[int])
	q.Init()
	for _, v := range items {
		q.Push(v)
	}
	return q
}

// all pops until the queue is empty and closed.
func all(t *testing.T, q *Queue[int]) (got []int) {
	t.Helper()
	q.Close()
	for {
		v, err := q.Pop(t.Context(), nil)
		if errors.Is(err, ErrClosed) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
}

func TestOrder(t *testing.T) {
	q := newQueue(t)
	var got, want []int
	for i := range 100 { // the queue grows, moves and empties
		q.Push(i)
		want = append(want, i)
		if i%3 == 2 {
			v, err := q.Pop(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v)
		}
	}
	if n := q.Len(); n != len(want)-len(got) {
		t.Errorf("length %d, want %d", n, len(want)-len(got))
	}
	if got = append(got, all(t, q)...); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDrop(t *testing.T) {
	q := newQueue(t, 1, 2, 3, 4, 5)
	q.Drop(func(v int) bool { return v%2 == 0 })
	if got := all(t, q); !slices.Equal(got, []int{1, 3, 5}) {
		t.Errorf("%v is left", got)
	}
}

// TestReaders: each of several readers that wait gets one of the items.
func TestReaders(t *testing.T) {
	q := newQueue(t)
	const readers = 8
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			_, err := q.Pop(t.Context(), func(v int) {
				mu.Lock()
				got = append(got, v)
				mu.Unlock()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for i := range readers {
		q.Push(i)
	}
	wg.Wait()
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("got %v", got)
	}
}

func TestWaitEnds(t *testing.T) {
	q := newQueue(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Pop(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	q.Close()
	q.Close()
	if _, err := q.Pop(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
