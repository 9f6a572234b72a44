package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
	"github.com/gorxe/gorxe/wire/checksum"
)

// xrcFile returns a capture of RC as it would be with XRC, without the packets that XRC
// does not have.
func xrcFile(t *testing.T, file string) []byte {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := capture.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(65535, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	var p capture.Packet
	for {
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			return out.Bytes()
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Kind != capture.RoCEv2 || p.IP.Version != 4 {
			continue
		}
		pkt, err := wire.Parse(p.Transport[:len(p.Transport)-wire.ICRCLen])
		if err != nil {
			t.Fatal(err)
		}
		f := asXRC(t, p.Network, pkt)
		if f == nil {
			continue
		}
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, p.Time.UnixNano()), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(ci, f); err != nil {
			t.Fatal(err)
		}
	}
}

// asXRC returns a packet of RC, from the IP header on, as one of XRC to some shared
// receive queue.
func asXRC(t *testing.T, network []byte, p wire.Packet) []byte {
	t.Helper()
	h := p.Headers()
	h.Opcode = h.Opcode - wire.RCSendFirst + wire.XRCSendFirst
	if p.Info().Service != wire.ServiceRC || !h.Opcode.Info().Valid() {
		return nil
	}
	h.XRCSRQN = 0x1234
	body := append(h.Append(nil), p.Payload()...)
	body = append(body, make([]byte, p.Pad())...)
	return onWire(t, network, body)
}

// onWire puts a transport packet behind copies of an IPv4 and a UDP header.
func onWire(t *testing.T, network, body []byte) []byte {
	t.Helper()
	const ip, udp = 20, 8
	b := slices.Clone(network[:ip+udp])
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(body)+wire.ICRCLen))
	binary.BigEndian.PutUint16(b[ip+4:], uint16(udp+len(body)+wire.ICRCLen))
	binary.BigEndian.PutUint16(b[ip+6:], 0)
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^checksum.Fold(checksum.Add(0, b[:ip])))
	icrc, ok := wire.ICRCAsSent(b, body)
	if !ok {
		t.Fatal("no ICRC")
	}
	return binary.LittleEndian.AppendUint32(append(b, body...), icrc)
}

// TestXRCOfRC: RC becomes XRC, and is judged and played, also where keys are invalidated.
func TestXRCOfRC(t *testing.T) {
	for _, name := range []string{"allops_rc_gid1.pcap", "interop-loss.pcap", "interop-windows.pcap", "interop-not-ready.pcap"} {
		t.Run(name, func(t *testing.T) {
			file := xrcFile(t, captures+name)
			checked, err := conformance.Check(bytes.NewReader(file), conformance.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range checked.Findings {
				t.Error(&checked.Findings[i])
			}
			r, err := Replay(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Skipped) > 0 || len(r.Sessions) < 2 {
				t.Errorf("%d sessions, skipped %v", len(r.Sessions), r.Skipped)
			}
			compared := make(map[Role]int)
			for _, s := range r.Sessions {
				compared[s.Role] += s.Compared
				if s.Stopped != "" || len(s.Differences) > 0 && s.unexplained > 0 {
					t.Errorf("%s, as %s: %s %v", s.Flow, s.Role, s.Stopped, s.Differences)
				}
			}
			if compared[Requester]+compared[Responder] < 50 || compared[Responder] == 0 {
				t.Errorf("compared %v", compared)
			}
		})
	}
}

// TestXRC: in a capture of stock programs, initiators and targets are played as what they are, also
// where several SRQs belong to one domain.
func TestXRC(t *testing.T) {
	file, err := os.ReadFile(captures + "gorxe-xrc.pcap")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Replay(bytes.NewReader(file))
	if err != nil || len(r.Skipped) > 0 {
		t.Fatalf("skipped %v: %v", r.Skipped, err)
	}
	compared := make(map[Role]int)
	for _, s := range r.Sessions {
		if s.Stopped != "" || len(s.Differences) > 0 || s.Free[NotSent] > 0 {
			t.Errorf("%s, as %s: %+v", s.Flow, s.Role, s)
		}
		compared[s.Role] += s.Compared
	}
	if compared[Requester] < 40 || compared[Responder] < 20 || compared[Manager] < 5 {
		t.Errorf("compared %v", compared)
	}
}

// TestXRCSensitive: the last packet of a message names another SRQ, which the engine refuses to do
// and to take.
func TestXRCSensitive(t *testing.T) {
	file := xrcConversation(t,
		xrcPacket{request: true, h: wire.Headers{Opcode: wire.XRCSendFirst, XRCSRQN: 7, PSN: 5}, size: 256},
		xrcPacket{request: true, h: wire.Headers{Opcode: wire.XRCSendLast, XRCSRQN: 8, PSN: 6, AckReq: true}, size: 16},
		xrcPacket{h: wire.Headers{Opcode: wire.XRCAck, PSN: 6, Syndrome: wire.SyndromeACK, MSN: 1}},
	)
	about := make(map[string]bool)
	for _, s := range replayed(t, file) {
		for _, d := range s.Differences {
			about[string(s.Role)+": "+d.About] = true
		}
	}
	if !about[string(Requester)+": SRQ"] || !about[string(Responder)+": acknowledgement"] {
		t.Errorf("found %v", about)
	}
}

// TestXRCRefused: a request names an SRQ that the target's domain does not have, and the captured
// device refused it.
func TestXRCRefused(t *testing.T) {
	file := xrcConversation(t,
		xrcPacket{request: true, h: wire.Headers{Opcode: wire.XRCSendOnly, XRCSRQN: 7, PSN: 5, AckReq: true}, size: 16},
		xrcPacket{h: wire.Headers{Opcode: wire.XRCAck, PSN: 5, Syndrome: wire.SyndromeACK, MSN: 1}},
		xrcPacket{request: true, h: wire.Headers{Opcode: wire.XRCSendOnly, XRCSRQN: 9, PSN: 6, AckReq: true}, size: 16},
		xrcPacket{h: wire.Headers{Opcode: wire.XRCAck, PSN: 6, Syndrome: wire.SyndromeNAK(wire.NAKRemoteAccess), MSN: 1}},
	)
	assumed := 0
	for _, s := range replayed(t, file) {
		if s.Stopped != "" || len(s.Differences) > 0 || s.Compared != 2 {
			t.Errorf("%s, as %s: compared %d, %s %v", s.Flow, s.Role, s.Compared, s.Stopped, s.Differences)
		}
		assumed += s.Assumed["an SRQ that the target's domain does not have"]
	}
	if assumed != 1 {
		t.Errorf("%d requests for a missing SRQ, want 1", assumed)
	}
}

// TestXRCInvalidate: SENDs invalidate keys, for receives of two SRQs of the domain. A key that is
// good again is that of another window. Nothing answers what cannot be invalidated (IBA 9.9.3,
// class J), and a message is for one SRQ.
func TestXRCInvalidate(t *testing.T) {
	const key, va = 0x5500, 0x10000
	ack := func(psn wire.PSN, msn wire.MSN) xrcPacket {
		return xrcPacket{h: wire.Headers{Opcode: wire.XRCAck, PSN: psn, Syndrome: wire.SyndromeACK, MSN: msn}}
	}
	request := func(op wire.Opcode, psn wire.PSN, srqn uint32, key wire.RKey, size int) xrcPacket {
		return xrcPacket{request: true, size: size, h: wire.Headers{Opcode: op, XRCSRQN: srqn, PSN: psn, AckReq: true,
			VA: va, RKey: key, DMALen: uint32(size), InvRKey: key}}
	}
	write := func(psn wire.PSN, key wire.RKey) xrcPacket { return request(wire.XRCWriteOnly, psn, 7, key, 16) }
	send := func(psn wire.PSN, srqn uint32, key wire.RKey) xrcPacket {
		return request(wire.XRCSendOnlyInv, psn, srqn, key, 16)
	}
	start := []xrcPacket{write(5, key), ack(5, 1), send(6, 7, key), ack(6, 2), write(7, key+0x100), ack(7, 3), send(8, 9, key+0x100), ack(8, 4)}
	refused := ack(9, 4)
	refused.h.Syndrome = wire.SyndromeNAK(wire.NAKRemoteAccess)
	for name, tc := range map[string]struct {
		then []xrcPacket
		want []string // what differences are about
	}{
		"as it should be":     {nil, nil},
		"the key is refused":  {[]xrcPacket{write(9, key), refused}, nil},
		"the key is new":      {[]xrcPacket{write(9, key), ack(9, 5)}, nil},
		"a SEND is refused":   {[]xrcPacket{send(9, 7, key), refused}, []string{"NAK"}},
		"a SEND for two SRQs": {[]xrcPacket{request(wire.XRCSendFirst, 9, 7, 0, 256), request(wire.XRCSendLastInv, 10, 9, key, 16), ack(10, 5)}, []string{"SRQ", "acknowledgement"}},
	} {
		var got []string
		for _, s := range replayed(t, xrcConversation(t, append(slices.Clone(start), tc.then...)...)) {
			if s.Stopped != "" && tc.want == nil || s.Compared == 0 {
				t.Errorf("%s: %s, as %s: compared %d, %s", name, s.Flow, s.Role, s.Compared, s.Stopped)
			}
			for _, d := range s.Differences {
				got = append(got, d.About)
			}
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: differences about %q, want %q", name, got, tc.want)
		}
	}
}

func replayed(t *testing.T, file []byte) []*Session {
	t.Helper()
	r, err := Replay(bytes.NewReader(file))
	if err != nil || len(r.Sessions) != 2 {
		t.Fatalf("%d sessions, skipped %v: %v", len(r.Sessions), r.Skipped, err)
	}
	return r.Sessions
}

// xrcPacket is one of a conversation of an initiator and a target.
type xrcPacket struct {
	request bool
	h       wire.Headers
	size    int
}

// xrcConversation returns a capture of such packets.
func xrcConversation(t *testing.T, packets ...xrcPacket) []byte {
	t.Helper()
	const initiator, target = 0x111, 0x222
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(65535, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	network := make([]byte, 28)
	copy(network, []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc0, 0, 0x12, 0xb7})
	for i, p := range packets {
		p.h.PKey, p.h.DestQP = wire.DefaultPKey, target
		from, to := []byte{10, 0, 0, 1}, []byte{10, 0, 0, 2}
		if !p.request {
			p.h.DestQP, from, to = initiator, to, from
		}
		copy(network[12:], from)
		copy(network[16:], to)
		f := onWire(t, network, append(p.h.Append(nil), make([]byte, p.size)...))
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1, int64(i)*1000), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(ci, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
