// Package pairflows pairs flows that are probably the two directions of one connection, if
// the conformance checker is not certain. A diagram or a comparison may use a guess; a
// verdict must not.
package pairflows

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

// Pairs pairs the flows of reliable connections that have no known peer. flow returns
// the checker's flow of an element of all, or nil to leave the element out.
//
// Two flows fit if every response in either answers an earlier request in the other. If
// several fit, Pairs takes the one whose request was the last before the first response.
// answers reports whether all responses of s are to requests of o. It also returns the
// packet of the request that the first response answers, or 0 if s has no response.
//
// If there are more than most flows from one host to another, Pairs tries none of them.
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
			// s must be the one with responses.
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
// opcodes. A READ takes one PSN for each packet of its response, which has at least 256
// bytes.
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
