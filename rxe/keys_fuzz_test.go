package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// FuzzKeys registers, deregisters, binds and invalidates as the input says, and
// keeps a list of what should be accessible. After each step it tries every key
// that ever existed. The list is flat: it knows no tables, variants or states.
func FuzzKeys(f *testing.F) {
	f.Add([]byte{0, 3, 1, 9, 2, 3, 17, 40, 3, 0, 4, 1, 1, 0})
	f.Add([]byte{0, 31, 2, 0, 2, 31, 0, 64, 2, 1, 9, 9, 5, 0, 5, 1, 1, 1, 1, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		d := newObjDev(t)
		k := &keyModel{d: d}
		for range 2 {
			pd := d.pd()
			k.pds = append(k.pds, pd)
			k.qps = append(k.qps, d.qp(pd, QPRC), d.qp(pd, QPRC))
			k.mws = append(k.mws, d.mw(pd, MWType1), d.mw(pd, MWType2))
		}
		for len(input) >= 4 && len(k.seen) < 64 {
			k.step(input[0], input[1], input[2], input[3])
			k.probe(t)
			input = input[4:]
		}
		d.must(d.Close())
	})
}

// keyModel is the device's objects and what they should give access to.
type keyModel struct {
	d    *objDev
	pds  []*PD
	qps  []*QP
	mws  []*MW
	mrs  []*MR
	live []keyRight
	seen []wire.RKey
}

type keyRight struct {
	key          wire.RKey
	obj          any // *MR or *MW
	pd           *PD
	qp           *QP // nil: any of pd
	base, length uint64
	access       Access
	addr         uint64
}

const modelBase, modelAddr, modelLength = 0x1000, 0x70000, 0x100

func (k *keyModel) add(r keyRight) {
	k.live = append(k.live, r)
	k.seen = append(k.seen, r.key)
}

func (k *keyModel) drop(obj any) {
	for i := range k.live {
		if k.live[i].obj == obj {
			k.live = append(k.live[:i], k.live[i+1:]...)
			return
		}
	}
}

func (k *keyModel) step(op, a, b, c byte) {
	switch op % 5 {
	case 0: // register
		pd := k.pds[a&1]
		access := (Access(a>>1)<<1 | AccessLocalWrite | AccessMWBind) & 0x1f
		mr := k.d.mr(pd, modelAddr, modelLength, modelBase, access)
		k.mrs = append(k.mrs, mr)
		k.add(keyRight{mr.RKey(), mr, pd, nil, modelBase, modelLength, access, modelAddr})
	case 1: // deregister
		if len(k.mrs) > 0 {
			if mr := k.mrs[int(a)%len(k.mrs)]; mr.Dereg() == nil {
				k.drop(mr)
			}
		}
	case 2:
		k.bind(a, b, c)
	case 3: // invalidate
		if len(k.seen) > 0 {
			key, q := k.seen[int(a)%len(k.seen)], k.qps[b&3]
			for _, r := range k.live {
				if mw, ok := r.obj.(*MW); ok && r.key == key && q.localInvalidate(key) == WCSuccess {
					k.drop(mw)
					break
				}
			}
		}
	case 4: // reregister with fewer rights
		if len(k.mrs) > 0 {
			mr := k.mrs[int(a)%len(k.mrs)]
			if mr.Rereg(ReregAccess, nil, nil, 0, 0, 0, AccessRemoteRead) == nil {
				for i := range k.live {
					if k.live[i].obj == mr {
						k.live[i].access = AccessRemoteRead
					}
				}
			}
		}
	}
}

func (k *keyModel) bind(a, b, c byte) {
	if len(k.mrs) == 0 {
		return
	}
	q, mw, mr := k.qps[a&3], k.mws[a>>2&3], k.mrs[int(b)%len(k.mrs)]
	bind := MWBind{MW: mw, MR: mr, Addr: modelBase + uint64(c), Length: uint64(b),
		Access: AccessRemoteRead}
	if mw.Type() == MWType2 {
		bind.RKey = wire.RKey(c)
	}
	if q.bindMW(&bind) != WCSuccess {
		return
	}
	k.drop(mw)
	if bind.Length == 0 {
		return
	}
	r := keyRight{mw.RKey(), mw, mw.pd, nil, bind.Addr, bind.Length, bind.Access, modelAddr + uint64(c)}
	if mw.Type() == MWType2 {
		r.qp = q
	}
	k.add(r)
}

// probe tries every key, on every QP, at places that are inside and outside.
func (k *keyModel) probe(t *testing.T) {
	t.Helper()
	for _, key := range k.seen {
		for _, q := range k.qps {
			for _, need := range []Access{AccessRemoteRead, AccessRemoteWrite} {
				for _, va := range []uint64{modelBase - 1, modelBase, modelBase + 0x80, modelBase + 0xff} {
					k.try(t, q, key, va, 2, need)
				}
			}
		}
	}
}

func (k *keyModel) try(t *testing.T, q *QP, key wire.RKey, va, n uint64, need Access) {
	t.Helper()
	want, at := false, uint64(0)
	for _, r := range k.live {
		if r.key == key && r.pd == q.pd && (r.qp == nil || r.qp == q) && r.access&need == need &&
			va >= r.base && va+n <= r.base+r.length {
			want, at = true, r.addr+va-r.base
		}
	}
	ref, reason := q.remoteAccess(q.pd, key, va, n, need)
	if (reason == keyOK) != want || ref.va != at {
		t.Fatalf("key %x at %x need %x: %v, memory %x; want access %v, memory %x",
			key, va, need, reason, ref.va, want, at)
	}
	ref.release()
}
