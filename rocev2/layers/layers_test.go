package layers

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	gplayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/gorxe/gorxe/wire"
)

func TestMain(m *testing.M) {
	Register()
	m.Run()
}

// captured calls fn with each packet of each capture of kernel rdma_rxe.
func captured(t testing.TB, fn func(file string, n int, p gopacket.Packet)) {
	t.Helper()
	files, err := filepath.Glob("../../testdata/pcaps/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := pcapgo.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; ; n++ {
			data, _, err := r.ReadPacketData()
			if err != nil {
				break // the end
			}
			fn(filepath.Base(name), n, gopacket.NewPacket(data, r.LinkType(), gopacket.Default))
		}
	}
}

// Every packet that the kernel sent must decode, agree with package wire, and
// come out the same when it is built again from its gplayers.
func TestLayersOnCaptures(t *testing.T) {
	seen := map[wire.Opcode]int{}
	captured(t, func(file string, n int, p gopacket.Packet) {
		udp, ok := p.TransportLayer().(*gplayers.UDP)
		if !ok || udp.DstPort != wire.UDPPort {
			return
		}
		if e := p.ErrorLayer(); e != nil {
			if file != "netem_corrupt2.pcap" {
				t.Errorf("%s packet %d: %v", file, n, e.Error())
			}
			return
		}
		b := p.Layer(LayerTypeBTH).(*BTH)
		body := udp.Payload[:len(udp.Payload)-wire.ICRCLen]
		view, err := wire.Parse(body)
		if err != nil {
			if file != "netem_corrupt2.pcap" {
				t.Errorf("%s packet %d: %v", file, n, err)
			}
			return
		}
		seen[b.Opcode]++
		compareLayers(t, p, b, view)
		rebuild(t, file, n, p, udp)
	})
	if len(seen) < 20 {
		t.Errorf("only %d opcodes in the captures: %v", len(seen), seen)
	}
}

func compareLayers(t *testing.T, p gopacket.Packet, b *BTH, view wire.Packet) {
	t.Helper()
	type common struct {
		op               wire.Opcode
		se, mig, fecn, a bool
		pad              int
		pkey             wire.PKey
		qpn              wire.QPN
		psn              wire.PSN
	}
	got := common{b.Opcode, b.Solicited, b.MigReq, b.FECN, b.AckReq, int(b.PadCount), b.PKey, b.DestQP, b.PSN}
	want := common{view.Opcode(), view.Solicited(), view.MigReq(), view.FECN(), view.AckReq(), view.Pad(), view.PKey(), view.DestQP(), view.PSN()}
	if got != want {
		t.Errorf("BTH: got %+v, want %+v", got, want)
	}
	var payload []byte
	if app := p.ApplicationLayer(); app != nil {
		payload = app.Payload()
	}
	if !bytes.Equal(payload, view.Payload()) {
		t.Errorf("%v: payload of %d bytes, want %d", b.Opcode, len(payload), len(view.Payload()))
	}
	for _, l := range p.Layers() {
		ok := true
		switch l := l.(type) {
		case *RETH:
			ok = l.VA == view.VA() && l.RKey == view.RKey() && l.Length == view.DMALen()
		case *AETH:
			ok = l.Syndrome == view.Syndrome() && l.MSN == view.MSN()
		case *DETH:
			ok = l.QKey == view.QKey() && l.SrcQP == view.SrcQP()
		case *ImmDt:
			ok = l.Imm == view.Imm()
		case *IETH:
			ok = l.RKey == view.InvRKey()
		case *AtomicETH:
			ok = l.VA == view.VA() && l.RKey == view.RKey() && l.SwapAdd == view.SwapAdd() && l.Compare == view.Compare()
		case *AtomicAckETH:
			ok = l.Original == view.AtomicOrig()
		}
		if !ok {
			t.Errorf("%v: %+v differs from what wire reads", b.Opcode, l)
		}
	}
}

// rebuild serializes the RoCEv2 layers of p again, with a new ICRC.
func rebuild(t *testing.T, file string, n int, p gopacket.Packet, udp *gplayers.UDP) {
	t.Helper()
	var out []gopacket.SerializableLayer
	for _, l := range p.Layers() {
		if l.LayerType() == gopacket.LayerTypePayload || l.LayerType() >= LayerTypeBTH {
			out = append(out, l.(gopacket.SerializableLayer))
		}
	}
	b := p.Layer(LayerTypeBTH).(*BTH)
	sent := b.ICRC
	if err := b.SetHeadersForICRC(p.NetworkLayer(), udp); err != nil {
		t.Fatal(err)
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, out...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), udp.Payload) && (file != "netem_corrupt2.pcap" || b.ICRC == sent) {
		t.Errorf("%s packet %d: rebuilt %x, captured %x", file, n, buf.Bytes(), udp.Payload)
	}
}

// TestLayersRoundTrip: headers that no capture has are the same after a round trip.
func TestLayersRoundTrip(t *testing.T) {
	tests := []struct {
		name string
		exts []gopacket.SerializableLayer
		op   wire.Opcode
	}{
		{"FLUSH", []gopacket.SerializableLayer{&FETH{Placement: 2, Level: 1}, &RETH{VA: 1 << 40, RKey: 7, Length: 4096}}, wire.RCFlush},
		{"CNP", []gopacket.SerializableLayer{&CNP{}}, wire.OpCNP},
		{"XRC", []gopacket.SerializableLayer{&XRCETH{SRQN: 0x123456}}, wire.XRCSendFirst},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &BTH{Opcode: tt.op, PKey: 0xffff, DestQP: 0x654321, PSN: 0xfedcba, BECN: true, ICRC: 0x01020304}
			buf := gopacket.NewSerializeBuffer()
			if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, append([]gopacket.SerializableLayer{b}, tt.exts...)...); err != nil {
				t.Fatal(err)
			}
			p := gopacket.NewPacket(buf.Bytes(), LayerTypeBTH, gopacket.Default)
			if e := p.ErrorLayer(); e != nil {
				t.Fatal(e.Error())
			}
			again := gopacket.NewSerializeBuffer()
			var out []gopacket.SerializableLayer
			for _, l := range p.Layers() {
				out = append(out, l.(gopacket.SerializableLayer))
			}
			if err := gopacket.SerializeLayers(again, gopacket.SerializeOptions{}, out...); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(buf.Bytes(), again.Bytes()) || len(p.Layers()) != 1+len(tt.exts) {
				t.Errorf("got %x in %d layers, want %x in %d", again.Bytes(), len(p.Layers()), buf.Bytes(), 1+len(tt.exts))
			}
		})
	}
}

// FuzzLayers: every prefix of every opcode's packet is refused or decoded, without a panic.
func FuzzLayers(f *testing.F) {
	for op := range 256 {
		f.Add(append([]byte{byte(op), 0x30}, make([]byte, 60)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := gopacket.NewPacket(data, LayerTypeBTH, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if p.ErrorLayer() != nil {
			return
		}
		total := wire.ICRCLen
		for _, l := range p.Layers() {
			total += len(l.LayerContents())
		}
		if b := p.Layer(LayerTypeBTH).(*BTH); total+int(b.PadCount) != len(data) {
			t.Fatalf("layers hold %d bytes of %d", total, len(data))
		}
	})
}
