package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// IPCMHeaderLen is the length of the header that the RDMA IP CM service puts before
// the consumer's private data of a REQ or SIDR_REQ (IBA A11.3).
const IPCMHeaderLen = 36

// ErrIPCM is what ParseIPCM returns for bytes that are not a header of a known version.
var ErrIPCM = errors.New("wire: private data does not begin with a header of the RDMA IP CM service")

// Offsets of the fields of the header.
const (
	ipcmVersion   = 0 // 4 bits major, 4 bits minor
	ipcmIPVersion = 1 // 4 bits, in the upper half
	ipcmSrcPort   = 2 // 16 bits
	ipcmSrc       = 4
	ipcmDst       = 20
)

// IPCMHeader is the header of the RDMA IP CM service: the addresses of the
// connection. Both are IPv4, or both are IPv6 without a zone.
type IPCMHeader struct {
	Src, Dst netip.Addr
	SrcPort  uint16 // the destination port is in the service ID
}

// Put writes the header to the first IPCMHeaderLen bytes of b.
func (h *IPCMHeader) Put(b []byte) {
	b = b[:IPCMHeaderLen]
	clear(b)
	b[ipcmIPVersion] = 6 << 4
	if h.Src.Is4() {
		b[ipcmIPVersion] = 4 << 4
	}
	binary.BigEndian.PutUint16(b[ipcmSrcPort:], h.SrcPort)
	putIPCMAddr(b[ipcmSrc:], h.Src)
	putIPCMAddr(b[ipcmDst:], h.Dst)
}

// putIPCMAddr writes an address to 16 bytes; IPv4 takes the last four.
func putIPCMAddr(b []byte, a netip.Addr) {
	if a.Is4() {
		a4 := a.As4()
		copy(b[12:16], a4[:])
		return
	}
	gid := GIDFromAddr(a)
	copy(b, gid[:])
}

// ParseIPCM reads the header from the start of private data. The error is
// ErrTruncated, or ErrIPCM if the version of the header or of IP is unknown.
func ParseIPCM(b []byte) (IPCMHeader, error) {
	if len(b) < IPCMHeaderLen {
		return IPCMHeader{}, ErrTruncated
	}
	h := IPCMHeader{SrcPort: binary.BigEndian.Uint16(b[ipcmSrcPort:])}
	switch ip := b[ipcmIPVersion] >> 4; {
	case b[ipcmVersion] != 0:
		return IPCMHeader{}, ErrIPCM
	case ip == 4:
		h.Src = netip.AddrFrom4([4]byte(b[ipcmSrc+12:]))
		h.Dst = netip.AddrFrom4([4]byte(b[ipcmDst+12:]))
	case ip == 6:
		h.Src = netip.AddrFrom16([16]byte(b[ipcmSrc:]))
		h.Dst = netip.AddrFrom16([16]byte(b[ipcmDst:]))
	default:
		return IPCMHeader{}, ErrIPCM
	}
	return h, nil
}
