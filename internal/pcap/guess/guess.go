// Package guess takes flows for the two directions of one connection where the
// conformance checker does not commit itself. A wrong guess shows in a picture or in
// a comparison; no verdict may rest on one.
package guess

import (
	"net/netip"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

type hosts struct {
	src, dst netip.Addr
	kind     capture.Kind
}

// Pairs pairs those of all that are flows of reliable connections without a known
// peer: flow is the checker's, nil for what is not to be tried. Two fit if every response in
// either answers a request in the other that was sent before; of several that fit it
// is the one whose request was last before the first response.
//
// answers reports whether all responses of s are to requests of o, and the packet of
// the request that the first of them answers; 0 if s has no response. Where there are
// more than most flows from a host to another, none of them is tried.
func Pairs[S comparable](all []S, flow func(S) *conformance.Flow, most int, answers func(s, o S) (packet int, ok bool)) map[S]S {
	between := make(map[hosts][]S)
	for _, s := range all {
		if f := flow(s); alone(f) {
			h := hosts{f.Src, f.Dst, f.Kind}
			between[h] = append(between[h], s)
		}
	}
	pairs := make(map[S]S)
	for _, s := range all {
		f := flow(s)
		if _, paired := pairs[s]; paired || !alone(f) {
			continue
		}
		others := between[hosts{f.Dst, f.Src, f.Kind}]
		if len(others) > most || len(between[hosts{f.Src, f.Dst, f.Kind}]) > most {
			continue
		}
		var best S
		nearest := 0
		for _, o := range others {
			if _, paired := pairs[o]; paired || o == s {
				continue
			}
			// Of the two, s is the one that has responses.
			at, ok := answers(s, o)
			if !ok || at <= nearest {
				continue
			}
			if _, ok := answers(o, s); ok {
				best, nearest = o, at
			}
		}
		if nearest > 0 {
			pairs[s], pairs[best] = best, s
		}
	}
	return pairs
}

func alone(f *conformance.Flow) bool {
	return f != nil && (f.Service == wire.ServiceRC || f.Service == wire.ServiceXRC) && f.Peer == nil
}

// Answers reports whether a packet may be a response to a request, by their PSNs and
// what they are. A READ takes as many PSNs as its responses are packets, of 256 bytes
// at least.
func Answers(request, response wire.Packet) bool {
	ahead := response.PSN().Diff(request.PSN())
	asked, info := request.Info(), response.Info()
	switch {
	case ahead != 0:
		return ahead > 0 && info.Has(wire.OpReadResp) && asked.Has(wire.OpRead) && uint32(ahead) <= request.DMALen()/256
	case info.Has(wire.OpReadResp):
		return asked.Has(wire.OpRead | wire.OpAtomicWrite | wire.OpFlush)
	case info.Has(wire.HasAtomicAckETH):
		return asked.Has(wire.OpAtomic)
	default:
		return info.Has(wire.HasAETH) && (!asked.Has(wire.OpAtomic) || !response.Syndrome().IsACK())
	}
}
