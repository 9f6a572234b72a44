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

// TestXRC: a connection of XRC is judged and played as one of RC.
func TestXRC(t *testing.T) {
	for _, name := range []string{"allops_rc_gid1.pcap", "interop-loss.pcap"} {
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
				if s.Assumed[PlayedAsRC] == 0 {
					t.Errorf("%s, as %s: it does not say that it is not quite XRC", s.Flow, s.Role)
				}
			}
			if compared[Requester] < 50 || compared[Responder] < 50 {
				t.Errorf("compared %v", compared)
			}
		})
	}
}
