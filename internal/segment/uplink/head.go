package uplink

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

var hostOrder = binary.NativeEndian

const (
	headSize = 10 // struct virtio_net_hdr
	macs     = 12 // the two addresses of a frame
	vlanSize = 4
	auxRoom  = 64 // for one struct tpacket_auxdata, with its header
)

// head is what struct virtio_net_hdr says of a frame.
type head struct {
	needsSum bool
	gso      uint8
	size     uint16 // of a segment's payload
}

func parseHead(b []byte) head {
	return head{b[0]&unix.VIRTIO_NET_HDR_F_NEEDS_CSUM != 0, b[1] &^ unix.VIRTIO_NET_HDR_GSO_ECN, hostOrder.Uint16(b[4:])}
}

// tag is a VLAN tag as a frame has it.
type tag [vlanSize]byte

// parseAux looks for the VLAN tag of a frame in the ancillary data (struct tpacket_auxdata).
func parseAux(b []byte) (t tag, ok bool) {
	for len(b) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			return t, false
		}
		b = rest
		if header.Level != unix.SOL_PACKET || header.Type != unix.PACKET_AUXDATA || len(data) < auxSize {
			continue
		}
		status := hostOrder.Uint32(data)
		if status&unix.TP_STATUS_VLAN_VALID == 0 {
			continue
		}
		protocol := uint16(unix.ETH_P_8021Q)
		if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			protocol = hostOrder.Uint16(data[auxTPID:])
		}
		binary.BigEndian.PutUint16(t[:], protocol)
		binary.BigEndian.PutUint16(t[2:], hostOrder.Uint16(data[auxTCI:]))
		return t, true
	}
	return t, false
}

// Places in struct tpacket_auxdata.
const (
	auxTCI  = 16
	auxTPID = 18
	auxSize = 20
)

var _ [auxSize]byte = [unsafe.Sizeof(unix.TpacketAuxdata{})]byte{}
