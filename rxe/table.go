package rxe

import (
	"sync"
	"sync/atomic"
)

// numTable finds objects by number (QPN, key index, AH number). Lookup takes no
// lock: chains are immutable, so that a reader has either the chain before a change
// or the one after it. The numbers are random, so their low bits serve as the hash.
type numTable[T any] struct {
	mu    sync.Mutex // writers
	count int
	root  atomic.Pointer[[]atomic.Pointer[numNode[T]]]
}

type numNode[T any] struct {
	num  uint32
	val  *T
	next *numNode[T]
}

func (t *numTable[T]) lookup(num uint32) *T {
	root := t.root.Load()
	if root == nil {
		return nil
	}
	buckets := *root
	for n := buckets[num&uint32(len(buckets)-1)].Load(); n != nil; n = n.next {
		if n.num == num {
			return n.val
		}
	}
	return nil
}

// insert enters val under a number. It calls pick until that returns a free one.
func (t *numTable[T]) insert(val *T, pick func() uint32) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grow()
	num := pick()
	for t.lookup(num) != nil {
		num = pick()
	}
	buckets := *t.root.Load()
	slot := &buckets[num&uint32(len(buckets)-1)]
	slot.Store(&numNode[T]{num: num, val: val, next: slot.Load()})
	t.count++
	return num
}

// grow keeps the load at one object per bucket or less.
func (t *numTable[T]) grow() {
	root := t.root.Load()
	if root == nil {
		buckets := make([]atomic.Pointer[numNode[T]], numTableMin)
		t.root.Store(&buckets)
		return
	}
	if t.count < len(*root) {
		return
	}
	buckets := make([]atomic.Pointer[numNode[T]], 2*len(*root))
	t.each(func(num uint32, val *T) {
		slot := &buckets[num&uint32(len(buckets)-1)]
		slot.Store(&numNode[T]{num: num, val: val, next: slot.Load()})
	})
	t.root.Store(&buckets)
}

func (t *numTable[T]) remove(num uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	root := t.root.Load()
	if root == nil || t.lookup(num) == nil {
		return
	}
	buckets := *root
	slot := &buckets[num&uint32(len(buckets)-1)]
	var chain *numNode[T]
	for n := slot.Load(); n != nil; n = n.next {
		if n.num != num {
			chain = &numNode[T]{num: n.num, val: n.val, next: chain}
		}
	}
	slot.Store(chain)
	t.count--
}

// each calls f for every object that is in the table throughout the call.
func (t *numTable[T]) each(f func(num uint32, val *T)) {
	root := t.root.Load()
	if root == nil {
		return
	}
	for i := range *root {
		for n := (*root)[i].Load(); n != nil; n = n.next {
			f(n.num, n.val)
		}
	}
}
