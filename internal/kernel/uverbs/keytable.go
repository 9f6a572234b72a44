package uverbs

import (
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// keyTable finds the regions and windows of a file by their keys, for BIND MW
// requests, which name them so. The low byte of a key is a variant and not part
// of where it is found.
type keyTable struct {
	mu  sync.Mutex // a leaf lock
	mrs map[uint32]*mrRes
	mws map[uint32]*rxe.MW
}

const keyVariantBits = 8

func (t *keyTable) addMR(r *mrRes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mrs == nil {
		t.mrs = make(map[uint32]*mrRes)
	}
	t.mrs[uint32(r.mr.LKey())>>keyVariantBits] = r
}

func (t *keyTable) dropMR(lkey uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mrs, lkey>>keyVariantBits)
}

func (t *keyTable) addMW(mw *rxe.MW) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mws == nil {
		t.mws = make(map[uint32]*rxe.MW)
	}
	t.mws[uint32(mw.RKey())>>keyVariantBits] = mw
}

func (t *keyTable) dropMW(rkey uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mws, rkey>>keyVariantBits)
}

// mr finds a region by its present lkey; nil when there is none.
func (t *keyTable) mr(lkey uint32) *mrRes {
	t.mu.Lock()
	r := t.mrs[lkey>>keyVariantBits]
	t.mu.Unlock()
	if r == nil || uint32(r.mr.LKey()) != lkey {
		return nil
	}
	return r
}

// mw finds a window. Its variant is not looked at: binds that are still queued
// change it before the one that asks is executed.
func (t *keyTable) mw(rkey uint32) *rxe.MW {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mws[rkey>>keyVariantBits]
}
