package wire_test

import (
	"fmt"
	"net/netip"

	"github.com/gorxe/gorxe/wire"
)

// One RDMA WRITE from its fields to its bytes and back.
func Example() {
	route := wire.Route{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: 0xc123}
	icrc := wire.NewICRC(&route, wire.UDPPort)
	payload := []byte("hello")

	h := wire.Headers{
		Opcode: wire.RCWriteOnly, PKey: wire.DefaultPKey, DestQP: 0x11, PSN: 7, AckReq: true,
		Pad: uint8(wire.PadLen(len(payload))),
		VA:  0x1000, RKey: 0x1234, DMALen: uint32(len(payload)),
	}
	pkt := h.Append(nil)
	pkt = append(pkt, payload...)
	pkt = append(pkt, make([]byte, int(h.Pad)+wire.ICRCLen)...)
	icrc.Put(pkt, 0)

	// The receiver, which was not shown the IPv4 identification.
	if _, _, ok := icrc.CheckUnknownID(pkt, nil); !ok {
		fmt.Println("corrupt")
	}
	p, err := wire.Parse(pkt[:len(pkt)-wire.ICRCLen])
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%v to QP %#x, PSN %d: %q at %#x\n", p.Opcode(), p.DestQP(), p.PSN(), p.Payload(), p.VA())
	// Output: RC_RDMA_WRITE_ONLY to QP 0x11, PSN 7: "hello" at 0x1000
}
