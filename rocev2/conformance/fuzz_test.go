package conformance

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// FuzzCheck: no file makes the checker panic or contradict itself.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{"read-depth", "cm-timewait", "cm-ids", "go-back-n", "retransmission", "cnp-rate", "multicast-qp"} {
		f.Add(brokenScene(broken[name]).file(f))
	}
	f.Add(rocev1File(f))
	f.Add(erfFile(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := New(Options{MaxFlows: 16})
		if err != nil {
			t.Fatal(err)
		}
		r, err := capture.NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		var p capture.Packet
		for r.Next(&p) == nil {
			c.Add(&p)
		}
		c.Close()
		consistent(t, c)
	})
}

// FuzzStreams has the checker judge random headers with a right ICRC among a few queue
// pairs. A fuzzer of files hardly ever makes such packets.
func FuzzStreams(f *testing.F) {
	f.Add([]byte("some requests, and some responses to them"))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 60))
	f.Fuzz(stream)
}

// stream judges the packets of a script, which has ten bytes for each.
func stream(t *testing.T, script []byte) {
	c, err := New(Options{MaxFlows: 4})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; len(script) >= 10; n++ {
		b := script[:10]
		script = script[10:]
		h := wire.Headers{
			Opcode: wire.Opcode(b[0]), PSN: wire.PSN(binary.BigEndian.Uint16(b[1:])) - 0x8000, DestQP: wire.QPN(b[3] & 3),
			AckReq: b[4]&1 != 0, Syndrome: wire.Syndrome(b[5]), MSN: wire.MSN(b[6]), DMALen: uint32(b[7]) << (b[4] >> 3), PKey: wire.DefaultPKey,
		}
		p := capture.Packet{
			Number: n + 1, Time: time.Unix(0, int64(n)*int64(b[9])*1e5), Kind: capture.RoCEv2,
			Src: netip.AddrFrom4([4]byte{192, 0, 2, 1 + b[4]>>1&1}), Dst: netip.AddrFrom4([4]byte{192, 0, 2, 2 - b[4]>>1&1}),
			IP: capture.IPHeader{Version: 4, HeaderLen: 20, DF: true, ID: uint16(b[8])},
		}
		body := append(h.Append(nil), make([]byte, []int{0, 4, 256, 512}[b[8]&3])...)
		if len(body) < wire.BTHLen {
			continue
		}
		p.UDP = capture.UDPHeader{SrcPort: 0xc000, DstPort: wire.UDPPort, Length: 8 + len(body) + wire.ICRCLen}
		p.IP.Length = 20 + p.UDP.Length
		p.Network = make([]byte, 28)
		p.Transport = append(body, 0, 0, 0, 0)
		state := wire.NewICRC(&wire.Route{Src: p.Src, Dst: p.Dst, SrcPort: 0xc000}, wire.UDPPort)
		state.Put(p.Transport, p.IP.ID)
		p.TransportLen = len(p.Transport)
		c.Add(&p)
	}
	c.Close()
	consistent(t, c)
}

// TestRandomStreams is FuzzStreams without a fuzzer.
func TestRandomStreams(t *testing.T) {
	seeds := uint64(1000)
	if race.Enabled {
		seeds = 100
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 0))
		script := make([]byte, 10*r.IntN(100))
		for i := range script {
			// Opcodes of RC, and PSNs near each other.
			mask := [10]byte{0x1f, 0, 0x0f, 3, 0xff, 0xff, 7, 0xff, 0xff, 0xff}[i%10]
			script[i] = byte(r.Uint32()) & mask
			if i%10 == 1 {
				script[i] = 0x80
			}
		}
		stream(t, script)
	}
}

// consistent checks what must be true for any packets.
func consistent(t *testing.T, c *Checker) {
	t.Helper()
	s := c.Summary()
	var total RuleCount
	for i, n := range s.PerRule {
		total.Notes += n.Notes
		total.Warnings += n.Warnings
		total.Violations += n.Violations
		if allRules[i].Severity < Violation && n.Violations > 0 || (n.Total() > 0) != (n.FirstPacket > 0) {
			t.Errorf("%s: %+v", allRules[i].Name, n)
		}
	}
	if total.Notes != s.Notes || total.Warnings != s.Warnings || total.Violations != s.Violations {
		t.Errorf("rules have %+v, the summary %d, %d and %d", total, s.Notes, s.Warnings, s.Violations)
	}
	if len(s.Flows) > c.opts.MaxFlows {
		t.Errorf("%d flows", len(s.Flows))
	}
	for _, f := range s.Flows {
		if f.Peer != nil && f.Peer.Peer != f {
			t.Errorf("%v is not its peer's peer", f)
		}
		if f.req != nil && (len(f.req.ring) > maxHistory || len(f.req.holes) > maxHoles || len(f.req.pending) > 16) {
			t.Errorf("%v: history %d, holes %d, waiting %d", f, len(f.req.ring), len(f.req.holes), len(f.req.pending))
		}
	}
}
