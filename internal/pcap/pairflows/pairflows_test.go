package pairflows

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// Pairs takes the candidate whose request was the last before the first response, and
// only if each of the two fits the other.
func TestPairs(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	flows := map[string]*conformance.Flow{}
	for name, ends := range map[string][2]netip.Addr{
		"a1": {a, b}, "a2": {a, b}, "a3": {a, b}, "b1": {b, a}, "b2": {b, a}, "datagrams": {b, a}, "known": {b, a},
	} {
		flows[name] = &conformance.Flow{Src: ends[0], Dst: ends[1], Service: wire.ServiceRC}
	}
	flows["datagrams"].Service = wire.ServiceUD
	flows["known"].Peer = flows["a1"]
	// The packet of the request of o that s answers. A pair that is not listed does not fit.
	answers := map[[2]string]int{
		{"b1", "a1"}: 5, {"a1", "b1"}: 0,
		{"b1", "a2"}: 7, {"a2", "b1"}: 0,
		{"b1", "a3"}: 9, // but a3 does not fit b1
		{"b2", "a1"}: 3, {"a1", "b2"}: 4,
		{"known", "a3"}: 8, {"a3", "known"}: 0,
		{"datagrams", "a3"}: 8, {"a3", "datagrams"}: 0,
	}
	order := []string{"b1", "b2", "a1", "a2", "a3", "datagrams", "known", "none"}
	pairs := func(most int) map[string]string {
		return Pairs(order, func(s string) *conformance.Flow { return flows[s] }, most,
			func(s, o string) (int, bool) { at, ok := answers[[2]string{s, o}]; return at, ok })
	}
	want := map[string]string{"b1": "a2", "a2": "b1", "b2": "a1", "a1": "b2"}
	if got := pairs(3); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := pairs(2); len(got) != 0 {
		t.Errorf("%v of more than are tried", got)
	}
}

// Answers compares PSNs and opcodes.
func TestAnswers(t *testing.T) {
	packet := func(op wire.Opcode, psn wire.PSN, length uint32, y wire.Syndrome) wire.Packet {
		h := wire.Headers{Opcode: op, PSN: psn, DMALen: length, Syndrome: y}
		p, err := wire.Parse(h.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const last = 0xffffff // its successor is 0
	nak := wire.SyndromeNAK(wire.NAKRemoteAccess)
	for _, test := range []struct {
		request  wire.Opcode
		length   uint32
		response wire.Opcode
		psn      wire.PSN
		syndrome wire.Syndrome
		want     bool
	}{
		{wire.RCSendOnly, 0, wire.RCAck, last, wire.SyndromeACK, true},
		{wire.RCSendOnly, 0, wire.RCAck, 0, wire.SyndromeACK, false},
		{wire.RCSendOnly, 0, wire.RCAck, last - 1, wire.SyndromeACK, false},
		{wire.RCSendOnly, 0, wire.RCReadResponseOnly, last, wire.SyndromeACK, false},
		{wire.RCSendOnly, 0, wire.RCAtomicAck, last, wire.SyndromeACK, false},
		{wire.RCReadRequest, 0, wire.RCReadResponseOnly, last, wire.SyndromeACK, true},
		{wire.RCReadRequest, 1000, wire.RCReadResponseMiddle, 2, wire.SyndromeACK, true},
		{wire.RCReadRequest, 1000, wire.RCReadResponseMiddle, 3, wire.SyndromeACK, false},
		{wire.RCReadRequest, 1000, wire.RCAck, 2, wire.SyndromeACK, false},
		{wire.RCReadRequest, 1000, wire.RCAck, last, nak, true},
		{wire.RCFetchAdd, 0, wire.RCAtomicAck, last, wire.SyndromeACK, true},
		{wire.RCFetchAdd, 0, wire.RCAck, last, nak, true},
		{wire.RCFetchAdd, 0, wire.RCAck, last, wire.SyndromeACK, false},
		{wire.RCFetchAdd, 0, wire.RCReadResponseOnly, last, wire.SyndromeACK, false},
		{wire.RCFlush, 0, wire.RCReadResponseOnly, last, wire.SyndromeACK, true},
	} {
		request := packet(test.request, last, test.length, 0)
		response := packet(test.response, test.psn, 0, test.syndrome)
		if got := Answers(request, response); got != test.want {
			t.Errorf("%v of %d bytes, %v of PSN %#x: %v", test.request, test.length, test.response, test.psn, got)
		}
	}
}
