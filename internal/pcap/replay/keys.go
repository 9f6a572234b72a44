package replay

import (
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// keys are the memory keys of a captured responder, with the rights that each was seen
// to grant, and the engine's keys for them.
type keys struct {
	h       *host
	mem     rxe.Memory
	granted map[wire.RKey]*grant
	invalid map[wire.RKey]bool // invalidated by the peer, so they name windows
}

// grant is the memory and the rights that a key gave access to.
type grant struct {
	lo, hi uint64
	rights rxe.Access
	key    wire.RKey // the engine's; 0: not made yet, or invalidated
	old    wire.RKey // the invalidated one
}

// noKey is a key that the engine never has: index 0.
const noKey wire.RKey = 0x7f

// newKeys learns the keys from all requests of a session that were not refused.
func newKeys(h *host, mem rxe.Memory, x *index) *keys {
	k := &keys{h: h, mem: mem, granted: make(map[wire.RKey]*grant), invalid: make(map[wire.RKey]bool)}
	for i, e := range x.events {
		if !e.request {
			continue
		}
		if _, no := x.refusal(i); no {
			continue
		}
		p := e.pkt
		if p.Info().Has(wire.OpInv) {
			k.invalid[p.InvRKey()] = true
		}
		if n := accessed(p); n > 0 || p.Info().Has(wire.OpFlush) {
			k.learn(p.RKey(), p.VA(), n, rightsFor(p))
		}
	}
	return k
}

// accessed returns how many bytes of memory a request accesses.
func accessed(p wire.Packet) uint64 {
	switch info := p.Info(); {
	case info.Has(wire.HasAtomicETH):
		return 8
	case info.Has(wire.HasRETH):
		return uint64(p.DMALen())
	}
	return 0
}

func rightsFor(p wire.Packet) rxe.Access {
	switch info := p.Info(); {
	case info.Has(wire.OpRead):
		return rxe.AccessRemoteRead
	case info.Has(wire.OpAtomic):
		return rxe.AccessRemoteAtomic
	case info.Has(wire.OpFlush):
		placement, _ := p.FlushType()
		var a rxe.Access
		if placement&wire.FlushGlobal != 0 {
			a |= rxe.AccessFlushGlobal
		}
		if placement&wire.FlushPersistent != 0 {
			a |= rxe.AccessFlushPersist
		}
		return a
	default:
		return rxe.AccessRemoteWrite
	}
}

func (k *keys) learn(key wire.RKey, va, n uint64, rights rxe.Access) {
	hi := va + n
	if hi < va {
		return
	}
	g := k.granted[key]
	if g == nil {
		k.granted[key] = &grant{lo: va, hi: hi, rights: rights}
		return
	}
	g.lo, g.hi, g.rights = min(g.lo, va), max(g.hi, hi), g.rights|rights
}

// allows reports whether a key was seen to grant what a request wants.
func (k *keys) allows(p wire.Packet) bool {
	g := k.granted[p.RKey()]
	n := accessed(p)
	return g != nil && g.rights&rightsFor(p) == rightsFor(p) && p.VA() >= g.lo && p.VA() <= g.hi && n <= g.hi-p.VA()
}

// of returns the engine's key for a captured one.
func (k *keys) of(key wire.RKey) wire.RKey {
	g := k.granted[key]
	switch {
	case g == nil && k.invalid[key]:
		// It was invalidated before it was used.
		g = &grant{lo: chunkSize, hi: 2 * chunkSize, rights: rxe.AccessRemoteRead}
		k.granted[key] = g
	case g == nil:
		return noKey
	}
	if g.key == 0 && k.make(key, g) != nil {
		return noKey
	}
	return g.key
}

// refusing returns the engine's key for a request that the captured device refused. The
// engine should refuse the key too: it is out of range, lacks the right, or was
// invalidated. If the capture shows no such reason, the key is invalid and assumed is
// true.
func (k *keys) refusing(p wire.Packet) (key wire.RKey, assumed bool) {
	g := k.granted[p.RKey()]
	switch {
	case g == nil:
		return noKey, false
	case g.key == 0 && g.old != 0:
		return g.old, false
	case k.allows(p):
		return noKey, true
	}
	return k.of(p.RKey()), false
}

// make registers the memory that a captured key stands for.
func (k *keys) make(key wire.RKey, g *grant) error {
	rights := g.rights | rxe.AccessLocalWrite
	if k.invalid[key] {
		rights |= rxe.AccessMWBind
	}
	mr, err := k.h.pd.RegMR(k.mem, g.lo, g.hi-g.lo, g.lo, rights)
	if err != nil {
		return err
	}
	if g.key = mr.RKey(); !k.invalid[key] {
		return nil
	}
	mw, err := k.h.pd.AllocMW(rxe.MWType2)
	if err != nil {
		return err
	}
	// The consumer chooses a window's low byte.
	g.key = mw.RKey()&^0xff | (mw.RKey()+1)&0xff
	return mw.BindTo(k.h.q, &rxe.MWBind{RKey: g.key, MR: mr, Addr: g.lo, Length: g.hi - g.lo, Access: g.rights})
}

// invalidate records that a key was invalidated. If it is valid again later, it is that
// of another window.
func (k *keys) invalidate(key wire.RKey) {
	if g := k.granted[key]; g != nil {
		g.key, g.old = 0, g.key
	}
}
