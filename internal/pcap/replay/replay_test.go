package replay

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

const captures = "../../../testdata/pcaps/"

// TestCaptures: the engine does what captured devices did, or the difference is
// explained. The test lists the captures in which each explanation occurs.
func TestCaptures(t *testing.T) {
	var files []string
	for _, dir := range []string{"*.pcap", "defects/*.pcap"} {
		list, err := filepath.Glob(captures + dir)
		if err != nil || len(list) == 0 {
			t.Fatalf("no captures: %v", err)
		}
		files = append(files, list...)
	}
	explained := map[string][]string{
		whyRereadPlace: {"netem_corrupt2.pcap"},
		whyBehindRNR:   {"interop-not-ready.pcap"},
		whyOwnTID:      {"interop-crossed.pcap"},
		whyPresentMSN:  {"interop-kernels-reordering.pcap"},
		whyNoKey: {"allops_rc_gid0_v6.pcap", "allops_rc_gid1.pcap", "allops_uc_gid1.pcap",
			"interop-operations.pcap", "interop-transfers.pcap", "interop-kernels-operations.pcap", "interop-delay.pcap"},
	}
	// The kernel answers a FLUSH whose ICRC is as wrong as its own; the engine drops it.
	unanswered := map[string]int{"interop-kernels-flush.pcap": 2}
	// The captures begin with an answer to a request before them.
	answers := []string{"interop-delay.pcap", "interop-stray.pcap"}
	roles := make(map[Role]int)
	for _, file := range files {
		name := filepath.Base(file)
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Replay(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range r.Skipped {
			if slices.Contains(answers, name) && len(r.Skipped) == 1 && strings.Contains(k.Why, "lacks the requests") {
				continue
			}
			t.Errorf("%s: %s is not played: %s", name, k.Flow, k.Why)
		}
		for _, s := range r.Sessions {
			roles[s.Role] += s.Compared
			if s.Stopped != "" || s.Played == 0 {
				t.Errorf("%s: %s, as %s: %d played: %s", name, s.Flow, s.Role, s.Played, s.Stopped)
			}
			for i := range s.Differences {
				d := &s.Differences[i]
				if d.Explained == "" && unanswered[name] > 0 {
					unanswered[name]--
					continue
				}
				if !slices.Contains(explained[d.Explained], name) {
					t.Errorf("%s: %s, as %s: %v", name, s.Flow, s.Role, d)
				}
			}
			if n := s.Free[NotSent]; n > 0 {
				t.Errorf("%s: %s: %d requests were not compared", name, s.Flow, n)
			}
		}
	}
	for name, n := range unanswered {
		if n > 0 {
			t.Errorf("%s: %d differences did not occur", name, n)
		}
	}
	if roles[Responder] < 1000 || roles[Requester] < 1000 || roles[Manager] < 7 {
		t.Errorf("compared %v packets", roles)
	}
}

// TestBroken: captures with broken rules are played as well, as far as possible.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob(captures + "broken/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Replay(in); err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		in.Close()
	}
}

// sessionsOf loads a capture.
func sessionsOf(t testing.TB, name string) []*session {
	t.Helper()
	b, err := os.ReadFile(captures + name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := load(bytes.NewReader(b), usual)
	if err != nil {
		t.Fatal(err)
	}
	all, skipped := l.sessions()
	if len(skipped) > 0 {
		t.Fatalf("skipped %v", skipped)
	}
	return all
}

// played plays one session.
func played(n *session, role Role) *Session {
	play := playResponder
	if role == Requester {
		play = playRequester
	}
	var r Report
	r.play(n, role, play)
	return r.Sessions[0]
}

// nth returns the n-th packet of a session with an opcode, from 0.
func nth(t *testing.T, n *session, op wire.Opcode, i int) *event {
	t.Helper()
	for k := range n.events {
		if n.events[k].pkt.Opcode() == op {
			if i == 0 {
				return &n.events[k]
			}
			i--
		}
	}
	t.Fatalf("no such packet: %v", op)
	return nil
}

// change alters bytes of a packet, and parses it again.
func change(t *testing.T, e *event, f func(b []byte) []byte) {
	t.Helper()
	p, err := wire.Parse(f(bytes.Clone(e.pkt.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	e.pkt = p
}

// TestSensitive: a difference is found if a captured device did something else.
func TestSensitive(t *testing.T) {
	const psn, aeth, msn = 11, wire.BTHLen, wire.BTHLen + 3
	for _, tt := range []struct {
		name  string
		file  string
		flow  int // the session
		role  Role
		op    wire.Opcode
		n     int
		f     func(b []byte) []byte
		about string
	}{
		{"an ACK of what was not sent", "rping.pcap", 1, Responder, wire.RCAck, 2, func(b []byte) []byte { b[psn]++; return b }, "acknowledgement"},
		{"another MSN", "rping.pcap", 1, Responder, wire.RCAck, 2, func(b []byte) []byte { b[msn]++; return b }, "MSN"},
		{"a NAK for an ACK", "rping.pcap", 1, Responder, wire.RCAck, 2, func(b []byte) []byte {
			b[aeth] = byte(wire.SyndromeNAK(wire.NAKPSNSequence))
			return b
		}, "NAK"},
		{"an RNR NAK too late", "allops_err_gid1.pcap", 1, Responder, wire.RCAck, 2, func(b []byte) []byte { b[psn]++; return b }, "NAK"},
		{"MIDDLE for LAST", "netem_corrupt2.pcap", 0, Responder, wire.RCReadResponseLast, 0, func(b []byte) []byte {
			b[0] = byte(wire.RCReadResponseMiddle)
			return slices.Delete(b, aeth, aeth+wire.AETHLen)
		}, "opcode"},
		{"a READ response that is too short", "netem_corrupt2.pcap", 0, Responder, wire.RCReadResponseLast, 0, func(b []byte) []byte { return b[:len(b)-8] }, "payload"},
		{"a READ response to no READ", "netem_corrupt2.pcap", 0, Responder, wire.RCReadResponseLast, 0, func(b []byte) []byte { b[psn] += 0x40; return b }, "response"},
		{"other data when it is sent again", "netem_corrupt2.pcap", 0, Requester, wire.RCWriteMiddle, 38, func(b []byte) []byte { b[20] ^= 1; return b }, "payload"},
		{"a WRITE MIDDLE for a SEND MIDDLE", "netem_corrupt2.pcap", 0, Requester, wire.RCWriteMiddle, 3, func(b []byte) []byte { b[0] = byte(wire.RCSendMiddle); return b }, "opcode"},
		{"a solicited event in a MIDDLE", "netem_corrupt2.pcap", 0, Requester, wire.RCWriteMiddle, 3, func(b []byte) []byte { b[1] |= 0x80; return b }, "solicited event"},
		{"a WRITE that says less than it carries", "netem_corrupt2.pcap", 0, Requester, wire.RCWriteFirst, 0, func(b []byte) []byte { b[27] = 1; return b }, "length"},
		{"another destination", "rping.pcap", 1, Requester, wire.RCSendOnly, 1, func(b []byte) []byte { b[7]++; return b }, "destination"},
		{"a fatal NAK that is not heeded", "rping.pcap", 1, Requester, wire.RCAck, 1, func(b []byte) []byte {
			b[aeth] = byte(wire.SyndromeNAK(wire.NAKInvalidRequest))
			return b
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rc []*session
			for _, n := range sessionsOf(t, tt.file) {
				if n.service == wire.ServiceRC {
					rc = append(rc, n)
				}
			}
			n := rc[min(tt.flow, len(rc)-1)]
			if before := played(n, tt.role); before.Unexplained() > 0 {
				t.Fatalf("differs as it is: %v", before.Differences)
			}
			change(t, nth(t, n, tt.op, tt.n), tt.f)
			got := played(n, tt.role)
			if tt.about == "" {
				if all := len(rc[0].events); got.Compared >= all {
					t.Errorf("compared %d of %d", got.Compared, all)
				}
				return
			}
			if !slices.ContainsFunc(got.Differences, func(d Difference) bool { return d.About == tt.about && d.Explained == "" }) {
				t.Errorf("no difference about %q: %v", tt.about, got.Differences)
			}
		})
	}
}

// made is a session of packets that a test builds.
func made(mtu int, packets ...[]byte) *session {
	n := &session{
		flow: &conformance.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), QPN: 0x22},
		mtu:  mtu, paired: true, service: wire.ServiceRC,
	}
	for i, b := range packets {
		p, err := wire.Parse(b)
		if err != nil {
			panic(err) // the test is wrong
		}
		n.events = append(n.events, event{number: i + 1, pkt: p, request: p.Info().Has(wire.OpRequest)})
	}
	return n
}

// packet builds a packet; data must be whole words.
func packet(h wire.Headers, data []byte) []byte {
	h.PKey = wire.DefaultPKey
	if h.Opcode.Info().Has(wire.OpRequest) {
		h.DestQP = 0x22
	}
	return append(h.Append(nil), data...)
}

func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + seed)
	}
	return b
}

// TestReadInPieces: a device sends a long READ as one request, and the engine as several.
func TestReadInPieces(t *testing.T) {
	const mtu, count, first = 1024, 1024, 0xffff00
	packets := [][]byte{packet(wire.Headers{Opcode: wire.RCReadRequest, PSN: first, AckReq: true, VA: 0x10000, RKey: 0x1234, DMALen: mtu * count}, nil)}
	for i := range count {
		h := wire.Headers{Opcode: wire.RCReadResponseMiddle, PSN: wire.PSN(first).Add(uint32(i)), Syndrome: wire.SyndromeACK, MSN: 1}
		switch i {
		case 0:
			h.Opcode = wire.RCReadResponseFirst
		case count - 1:
			h.Opcode = wire.RCReadResponseLast
		}
		packets = append(packets, packet(h, pattern(i, mtu)))
	}
	n := made(mtu, packets...)
	asked := played(n, Requester)
	if asked.Unexplained() > 0 || asked.Stopped != "" || asked.Compared != 1 || asked.Free["READs asked for in pieces"] != 1 {
		t.Errorf("as requester: %+v", asked)
	}
	answered := played(n, Responder)
	if answered.Unexplained() > 0 || answered.Stopped != "" || answered.Compared != count {
		t.Errorf("as responder: %d compared, %v, %s", answered.Compared, answered.Differences, answered.Stopped)
	}
}

// TestWindow: a device may have more requests in flight than the engine ever has.
func TestWindow(t *testing.T) {
	const mtu, count = 1024, 3000
	var packets [][]byte
	for i := range count {
		h := wire.Headers{Opcode: wire.RCWriteMiddle, PSN: wire.PSN(i), VA: 0x10000, RKey: 0x1234, DMALen: mtu * count}
		switch i {
		case 0:
			h.Opcode = wire.RCWriteFirst
		case count - 1:
			h.Opcode, h.AckReq = wire.RCWriteLast, true
		}
		packets = append(packets, packet(h, pattern(i, mtu)))
	}
	packets = append(packets, packet(wire.Headers{Opcode: wire.RCAck, PSN: count - 1, Syndrome: wire.SyndromeACK, MSN: 1}, nil))
	n := made(mtu, packets...)
	sent := played(n, Requester)
	if sent.Unexplained() > 0 || sent.Stopped != "" || sent.Compared != count || sent.Free["acknowledgements divided, for the engine's window"] == 0 {
		t.Errorf("as requester: %+v", sent)
	}
	taken := played(n, Responder)
	if taken.Unexplained() > 0 || taken.Stopped != "" || taken.Played != count || taken.Compared != 1 {
		t.Errorf("as responder: %+v", taken)
	}
}

// TestGreedy: packets that ask for far more than the capture holds end a session.
func TestGreedy(t *testing.T) {
	n := made(1024, packet(wire.Headers{Opcode: wire.RCReadRequest, AckReq: true, RKey: 1, DMALen: 1 << 31}, nil))
	for _, role := range []Role{Responder, Requester} {
		if s := played(n, role); role == Responder && !strings.Contains(s.Stopped, "far more") {
			t.Errorf("as %s: stopped %q", role, s.Stopped)
		}
	}
}

// FuzzReplay: no capture makes the replay fail.
func FuzzReplay(f *testing.F) {
	for _, name := range []string{"allops_ext_gid1.pcap", "rping.pcap", "udaddy.pcap", "interop-not-ready.pcap", "gorxe-xrc.pcap"} {
		b, err := os.ReadFile(captures + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Replay(bytes.NewReader(file))
		if r == nil && err == nil {
			t.Fatal("neither a report nor an error")
		}
	})
}

// FuzzSession changes bytes of the packets of a session. In a file, their ICRCs would be
// wrong then.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{3, 0, 0x13, 2, 9, 11, 0xff, 9, 12, 0x61})
	f.Add([]byte{40, 0, 15, 9, 2, 0, 0xb7})
	all := sessionsOf(f, "interop-not-ready.pcap")
	all = append(all, sessionsOf(f, "allops_ext_gid1.pcap")...)
	all = append(all, sessionsOf(f, "gorxe-xrc.pcap")...)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		n := *all[int(data[0])%len(all)]
		n.events = slices.Clone(n.events)
		// Each three bytes: which packet, which byte of it, its value.
		for data = data[1:]; len(data) >= 3; data = data[3:] {
			e := &n.events[int(data[0])%len(n.events)]
			b := bytes.Clone(e.pkt.Bytes())
			b[int(data[1])%min(len(b), 48)] = data[2]
			if p, err := wire.Parse(b); err == nil && p.Info().Service == n.service && (p.Info().Has(wire.OpRequest) || n.reliable()) {
				e.pkt, e.request = p, p.Info().Has(wire.OpRequest)
			}
		}
		if !n.begin() {
			return
		}
		if n.reliable() {
			played(&n, Responder)
		}
		played(&n, Requester)
	})
}
