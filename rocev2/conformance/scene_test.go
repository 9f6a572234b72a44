package conformance

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/wire"
)

// scene is a capture that a test composes packet by packet.
type scene struct {
	packets []*scenePacket
	now     time.Duration
	ids     [2]uint16
	next    wire.PSN // of host a's requests
	ud      wire.PSN // of the last datagram
	msn     uint32
	xrcPSN  wire.PSN // of the next message of XRC
}

// scenePacket is one packet of a scene, and the changes to make to it.
type scenePacket struct {
	at       time.Duration
	fromB    bool
	id       uint16
	headers  wire.Headers
	payload  []byte
	label    string
	dst      string // another destination
	port     uint16 // another source port
	clearDF  bool
	tos      byte
	udpCheck uint16
	cutTo    int            // bytes of the transport before the ICRC; 0 for all
	before   func(b []byte) // changes the transport before the ICRC is computed
	after    func(b []byte) // changes the frame behind the Ethernet header afterwards
}

const (
	sceneGap = 10 * time.Microsecond
	sceneMTU = 256
	sceneQPA = 0x11
	sceneQPB = 0x12
	scenePSN = 0x53e046
)

var (
	sceneA = netip.MustParseAddr("192.0.2.1")
	sceneB = netip.MustParseAddr("192.0.2.2")
)

func newScene() *scene { return &scene{next: scenePSN, ids: [2]uint16{100, 40000}} }

// add appends a packet from host b, or from host a, a little later than the last.
func (s *scene) add(fromB bool, h wire.Headers, payload []byte) *scenePacket {
	i := 0
	if fromB {
		i = 1
	}
	s.now += sceneGap
	s.ids[i]++
	if h.PKey == 0 {
		h.PKey = wire.DefaultPKey
	}
	if h.DestQP == 0 {
		h.DestQP = [2]wire.QPN{sceneQPB, sceneQPA}[i]
	}
	h.Pad = uint8(wire.PadLen(len(payload)))
	p := &scenePacket{at: s.now, fromB: fromB, id: s.ids[i], headers: h, payload: payload, label: h.Opcode.String()}
	s.packets = append(s.packets, p)
	return p
}

// request appends a request of host a with the next PSN.
func (s *scene) request(op wire.Opcode, h wire.Headers, n int) *scenePacket {
	h.Opcode, h.PSN = op, s.next
	h.AckReq = op.Info().Has(wire.OpEnd)
	s.next = s.next.Next()
	if h.AckReq {
		s.msn++
	}
	return s.add(false, h, bytes.Repeat([]byte{0x5a}, n))
}

// ack appends host b's acknowledgement of everything so far.
func (s *scene) ack() *scenePacket { return s.answer(wire.SyndromeACK, s.next.Sub(1)) }

func (s *scene) answer(y wire.Syndrome, psn wire.PSN) *scenePacket {
	return s.add(true, wire.Headers{Opcode: wire.RCAck, PSN: psn, Syndrome: y, MSN: wire.MSN(s.msn)}, nil)
}

func (s *scene) send(n int) {
	s.request(wire.RCSendOnly, wire.Headers{}, n)
	s.ack()
}

func (s *scene) sends(times int) {
	for range times {
		s.send(16)
	}
}

// message appends a SEND or WRITE of three packets, and its acknowledgement.
func (s *scene) message(first wire.Opcode, last int) (packets [3]*scenePacket) {
	h := wire.Headers{VA: 0x10000, RKey: 0x1234, DMALen: uint32(2*sceneMTU + last)}
	packets[0] = s.request(first, h, sceneMTU)
	packets[1] = s.request(first+1, wire.Headers{}, sceneMTU)
	packets[2] = s.request(first+2, wire.Headers{}, last)
	s.ack()
	return packets
}

// read appends a READ and its responses.
func (s *scene) read(n int) (packets []*scenePacket) {
	count := max(1, (n+sceneMTU-1)/sceneMTU)
	packets = append(packets, s.request(wire.RCReadRequest, wire.Headers{VA: 0x20000, RKey: 0x1234, DMALen: uint32(n)}, 0))
	first := packets[0].headers.PSN
	s.next = first.Add(uint32(count))
	for i := range count {
		packets = append(packets, s.readResponse(first.Add(uint32(i)), readOpcode(i, count), min(sceneMTU, n-i*sceneMTU)))
	}
	return packets
}

func readOpcode(i, count int) wire.Opcode {
	switch {
	case count == 1:
		return wire.RCReadResponseOnly
	case i == 0:
		return wire.RCReadResponseFirst
	case i == count-1:
		return wire.RCReadResponseLast
	}
	return wire.RCReadResponseMiddle
}

func (s *scene) readResponse(psn wire.PSN, op wire.Opcode, n int) *scenePacket {
	return s.add(true, wire.Headers{Opcode: op, PSN: psn, Syndrome: wire.SyndromeACK, MSN: wire.MSN(s.msn)}, bytes.Repeat([]byte{0xa5}, n))
}

func (s *scene) atomic() (request, response *scenePacket) {
	request = s.request(wire.RCFetchAdd, wire.Headers{VA: 0x30000, RKey: 0x1234, SwapAdd: 1}, 0)
	return request, s.atomicAck(request, 41)
}

func (s *scene) atomicAck(request *scenePacket, value uint64) *scenePacket {
	return s.add(true, wire.Headers{
		Opcode: wire.RCAtomicAck, PSN: request.headers.PSN, Syndrome: wire.SyndromeACK, MSN: wire.MSN(s.msn), AtomicOrig: value,
	}, nil)
}

// datagram appends a packet from host a to a queue pair without a connection.
func (s *scene) datagram(qpn wire.QPN, qkey uint32, payload []byte) *scenePacket {
	s.ud = s.ud.Next()
	return s.add(false, wire.Headers{Opcode: wire.UDSendOnly, DestQP: qpn, QKey: qkey, SrcQP: 0x77, PSN: s.ud}, payload)
}

// clean appends some of everything that a connection does.
func (s *scene) clean() {
	s.sends(calm)
	s.message(wire.RCWriteFirst, 50)
	s.message(wire.RCSendFirst, 256)
	s.read(600)
	s.read(8)
	s.atomic()
	s.sends(2)
}

// frame returns the packet as an Ethernet frame.
func (p *scenePacket) frame() []byte {
	src, dst := sceneA, sceneB
	if p.fromB {
		src, dst = dst, src
	}
	if p.dst != "" {
		dst = netip.MustParseAddr(p.dst)
	}
	port := p.port
	if port == 0 {
		port = wire.UDPSourcePort(0, sceneQPA, sceneQPB)
	}
	body := p.headers.Append(nil)
	if len(body) == 0 { // an opcode that does not exist
		h := p.headers
		h.Opcode = wire.RCSendOnly
		body = h.Append(nil)
		body[0] = byte(p.headers.Opcode)
	}
	body = append(body, p.payload...)
	body = append(body, make([]byte, p.headers.Pad)...)
	if p.cutTo > 0 {
		body = body[:p.cutTo]
	}
	if p.before != nil {
		p.before(body)
	}
	udp := make([]byte, 8)
	binary.BigEndian.PutUint16(udp[0:], port)
	binary.BigEndian.PutUint16(udp[2:], wire.UDPPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(body)+wire.ICRCLen))
	binary.BigEndian.PutUint16(udp[6:], p.udpCheck)
	ip := make([]byte, 20)
	ip[0], ip[1], ip[8], ip[9] = 0x45, p.tos, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(20+8+len(body)+wire.ICRCLen))
	binary.BigEndian.PutUint16(ip[4:], p.id)
	if !p.clearDF {
		ip[6] = 0x40
	}
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
	headers := slices.Concat(ip, udp)
	icrc, ok := wire.ICRCAsSent(headers, append(slices.Clone(body), make([]byte, max(0, wire.BTHLen-len(body)))...))
	if !ok {
		panic("scene: headers without an ICRC")
	}
	b := slices.Concat(headers, body, binary.LittleEndian.AppendUint32(nil, icrc))
	if p.after != nil {
		p.after(b)
	}
	return slices.Concat([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00}, b)
}

// file returns the scene as a pcap file.
func (s *scene) file(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.packets {
		f := p.frame()
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1700000000, 0).Add(p.at), CaptureLength: len(f), Length: len(f)}
		if err := w.WritePacket(ci, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
