package replay

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// clean returns the unexplained differences of a replay, and the sessions that were not played to
// their end.
func clean(t *testing.T, name string, r *Report) {
	t.Helper()
	for _, s := range r.Sessions {
		if s.Stopped != "" {
			t.Errorf("%s: %s, as %s: stopped: %s", name, s.Flow, s.Role, s.Stopped)
		}
		for i := range s.Differences {
			if d := &s.Differences[i]; d.Explained == "" {
				t.Errorf("%s: %s, as %s: %v", name, s.Flow, s.Role, d)
			}
		}
	}
}

// wireSizes are the size of the largest request, and of the smallest response, in a capture.
func wireSizes(t *testing.T, file []byte) (request, response int64) {
	t.Helper()
	_, err := conformance.Read(bytes.NewReader(file), conformance.Options{}, func(p *capture.Packet, v *conformance.Verdict) error {
		n := int64(len(p.Transport))
		switch {
		case !v.Parsed:
		case v.Packet.Info().Has(wire.OpRequest):
			request = max(request, n)
		case response == 0 || n < response:
			response = n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return request, response
}

// TestBoundBetween: a bound that large requests exceed and small acknowledgements do not ends the
// capture for both at one packet. So the part that was replayed is still equal.
func TestBoundBetween(t *testing.T) {
	file := writes(t, 200)
	request, response := wireSizes(t, file)
	if request < 4*response {
		t.Fatalf("a request has %d bytes, a response %d", request, response)
	}
	const messages = 90 // that fit
	b := bounds{packets: 1 << 20, bytes: messages*(request+response) + response, lives: maxLives}
	r, err := replay(bytes.NewReader(file), b)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, "writes", r)
	if r.Part == nil || r.Part.Packets != 2*messages || r.Part.Bytes != messages*(request+response) || r.Part.Seconds <= 0 || r.Part.Bound == "" {
		t.Errorf("replayed %+v, want the first %d packets", r.Part, 2*messages)
	}
	for _, s := range r.Sessions {
		if s.Compared != messages {
			t.Errorf("as %s: %d compared, want %d", s.Role, s.Compared, messages)
		}
	}
	if r, err = Replay(bytes.NewReader(file)); err != nil || r.Part != nil {
		t.Errorf("%v: a capture that fits was replayed in part: %+v", err, r.Part)
	}
}

// writes is a capture of WRITEs of one large packet each, which are acknowledged one by one.
func writes(t *testing.T, n int) []byte {
	t.Helper()
	const mtu, a, b = 1024, 0x11, 0x22
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	add := func(fromB bool, h wire.Headers, payload []byte) {
		h.PKey = wire.DefaultPKey
		network := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0}
		if fromB {
			network[15], network[19] = network[19], network[15]
		}
		p := onWire(t, network, append(h.Append(nil), payload...))
		now = now.Add(time.Microsecond)
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: now, CaptureLength: len(p), Length: len(p)}, p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		psn := wire.PSN(0x500000 + i)
		add(false, wire.Headers{Opcode: wire.RCWriteOnly, DestQP: b, PSN: psn, AckReq: true, VA: 0x10000, RKey: 7, DMALen: mtu}, pattern(i, mtu))
		add(true, wire.Headers{Opcode: wire.RCAck, DestQP: a, PSN: psn, Syndrome: wire.SyndromeACK, MSN: wire.MSN(i + 1)}, nil)
	}
	return out.Bytes()
}

// TestBoundAnywhere: wherever the bound is, the part that was replayed is equal.
func TestBoundAnywhere(t *testing.T) {
	for _, name := range []string{"rping.pcap", "interop-not-ready.pcap", "interop-loss.pcap", "netem_corrupt2.pcap", "allops_err_gid1.pcap", "interop-crossed.pcap"} {
		file, err := os.ReadFile(captures + name)
		if err != nil {
			file, err = os.ReadFile(filepath.Join(captures, "defects", name))
		}
		if err != nil {
			t.Fatal(err)
		}
		for packets := 1; packets < 1<<20; packets += 1 + packets/4 {
			r, err := replay(bytes.NewReader(file), bounds{packets: packets, bytes: usual.bytes, lives: maxLives})
			if err != nil {
				t.Fatal(err)
			}
			clean(t, fmt.Sprintf("%s, %d packets", name, packets), r)
			if r.Part == nil {
				break
			}
		}
	}
}

// TestManyLives: a queue pair that fails more often than is played is played up to there.
func TestManyLives(t *testing.T) {
	const most, failures = 5, 12
	var packets [][]byte
	for i := range failures {
		psn := wire.PSN(100 * i)
		packets = append(packets,
			packet(wire.Headers{Opcode: wire.RCSendOnly, PSN: psn, AckReq: true}, pattern(i, 64)),
			packet(wire.Headers{Opcode: wire.RCAck, PSN: psn, Syndrome: wire.SyndromeACK, MSN: 1}, nil),
			packet(wire.Headers{Opcode: wire.RCWriteOnly, PSN: psn.Next(), AckReq: true, VA: 64, RKey: 9, DMALen: 64}, pattern(i, 64)),
			packet(wire.Headers{Opcode: wire.RCAck, PSN: psn.Next(), Syndrome: wire.SyndromeNAK(wire.NAKRemoteAccess), MSN: 1}, nil))
	}
	n := made(1024, packets...)
	n.flow.Service = wire.ServiceRC
	requests, responses := &stream{flow: n.flow}, new(stream)
	for _, e := range n.events {
		if e.request {
			requests.packets = append(requests.packets, e)
		} else {
			responses.packets = append(responses.packets, e)
		}
	}
	lives, end := requests.lives(responses, most)
	if len(lives) != most+1 || end != (most+1)*4+1 {
		t.Errorf("%d lives, the rest from packet %d", len(lives), end)
	}
	for _, n := range lives {
		if s := played(n, Responder); s.Unexplained() > 0 {
			t.Errorf("from packet %d: %v", s.First, s.Differences)
		}
	}
	if lives, end = requests.lives(responses, failures); len(lives) != failures || end != 0 {
		t.Errorf("%d lives, the rest from packet %d, want all %d", len(lives), end, failures)
	}
}

// TestManyLostNAKs: NAKs of the engine that the capture lacks leave room for those that it has.
func TestManyLostNAKs(t *testing.T) {
	var packets [][]byte
	send := func(psn wire.PSN) {
		packets = append(packets, packet(wire.Headers{Opcode: wire.RCSendOnly, PSN: psn, AckReq: true}, pattern(1, 64)))
	}
	answer := func(psn wire.PSN, y wire.Syndrome, msn int) {
		packets = append(packets, packet(wire.Headers{Opcode: wire.RCAck, PSN: psn, Syndrome: y, MSN: wire.MSN(msn)}, nil))
	}
	// Each second request arrives before the first; its sequence NAK is captured in the end only.
	const lost = maxNAKs + 10
	send(0)
	answer(0, wire.SyndromeACK, 1)
	for i := range lost + 1 {
		psn := wire.PSN(1 + 2*i)
		send(psn.Next())
		if i == lost {
			answer(psn, wire.SyndromeNAK(wire.NAKPSNSequence), 1+2*i)
		}
		send(psn)
		send(psn.Next())
		answer(psn.Next(), wire.SyndromeACK, 3+2*i)
	}
	s := played(made(1024, packets...), Responder)
	if s.Unexplained() > 0 || s.Stopped != "" || len(s.Differences)+s.More != lost {
		t.Errorf("%d differences, %d unexplained: %.3v; %s", len(s.Differences)+s.More, s.Unexplained(), s.Differences, s.Stopped)
	}
}

// TestOneDirection: a capture of one direction is equal as far as it goes, and the report says what
// it lacks.
func TestOneDirection(t *testing.T) {
	for _, name := range []string{"rping.pcap", "netem_corrupt2.pcap", "allops_rc_gid1.pcap", "interop-not-ready.pcap", "interop-mistakes.pcap", "udaddy.pcap"} {
		file, err := os.ReadFile(captures + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range []bool{true, false} {
			r, err := Replay(bytes.NewReader(oneDirection(t, file, first)))
			if err != nil {
				t.Fatal(err)
			}
			clean(t, fmt.Sprintf("%s, first %v", name, first), r)
			unsent := 0
			for _, s := range r.Sessions {
				unsent += s.Free[NotSent]
			}
			switch {
			case name != "netem_corrupt2.pcap":
			case first && unsent < 200:
				t.Errorf("%s: %d requests were not sent", name, unsent)
			case !first && (len(r.Skipped) != 1 || r.Compared() > 0):
				t.Errorf("%s: %d compared, skipped %v", name, r.Compared(), r.Skipped)
			}
		}
	}
}

// oneDirection keeps the packets that the first sender of RoCE packets sends, or the others.
func oneDirection(t *testing.T, file []byte, first bool) []byte {
	t.Helper()
	const header, record = 24, 16
	in, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.Clone(file[:header])
	var p capture.Packet
	var sender netip.Addr
	for at := header; in.Next(&p) == nil; {
		end := at + record + len(p.Frame)
		if p.Kind == capture.RoCEv2 && !sender.IsValid() {
			sender = p.Src
		}
		if (p.Src == sender) == first {
			out = append(out, file[at:end]...)
		}
		at = end
	}
	return out
}
