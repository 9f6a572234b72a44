package rocev2

// This file has all unsafe code of the package: the socket addresses and control messages of
// sendmmsg and recvmmsg, and SO_MEMINFO. x/sys/unix has none of them.

import (
	"encoding/binary"
	"math"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/mmsg"
)

// sockaddr holds either kind of socket address.
type sockaddr = unix.RawSockaddrInet6

const (
	sizeofInt = 4
	cmsgAlign = strconv.IntSize / 8
	// cmsgSpace is the room of one control message of up to 8 bytes of data.
	cmsgSpace = unix.SizeofCmsghdr + 8
)

// cmsgLen is the length field of the control message at b[0].
func cmsgLen(b []byte) uint64 {
	if strconv.IntSize == 64 {
		return binary.NativeEndian.Uint64(b)
	}
	return uint64(binary.NativeEndian.Uint32(b))
}

// appendCmsg appends one control message to b, padded to cmsgSpace.
func appendCmsg(b []byte, level, kind int32, value uint32, size int) []byte {
	at := len(b)
	b = b[:at+cmsgSpace]
	clear(b[at:])
	length := unix.SizeofCmsghdr + size
	if strconv.IntSize == 64 {
		binary.NativeEndian.PutUint64(b[at:], uint64(length))
	} else {
		binary.NativeEndian.PutUint32(b[at:], uint32(length))
	}
	head := b[at+unix.SizeofCmsghdr-8:]
	binary.NativeEndian.PutUint32(head, uint32(level))
	binary.NativeEndian.PutUint32(head[4:], uint32(kind))
	if size == 2 {
		binary.NativeEndian.PutUint16(head[8:], uint16(value))
	} else {
		binary.NativeEndian.PutUint32(head[8:], value)
	}
	return b
}

// putSockaddr writes the address that sendmsg takes and returns its length.
// flowLabel is sent only if the socket has IPV6_FLOWINFO_SEND.
func putSockaddr(sa *sockaddr, addr netip.Addr, port uint16, flowLabel, scope uint32) uint32 {
	if addr.Is4() {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		in.Family = unix.AF_INET
		in.Addr = addr.As4()
		putPort(&in.Port, port)
		return unix.SizeofSockaddrInet4
	}
	sa.Family = unix.AF_INET6
	sa.Addr = addr.As16()
	putPort(&sa.Port, port)
	binary.BigEndian.PutUint32((*[4]byte)(unsafe.Pointer(&sa.Flowinfo))[:], flowLabel&0xfffff)
	sa.Scope_id = scope
	return unix.SizeofSockaddrInet6
}

// readSockaddr returns an address that recvmsg wrote.
func readSockaddr(sa *sockaddr) (netip.Addr, uint16) {
	if sa.Family == unix.AF_INET {
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrFrom4(in.Addr), port(&in.Port)
	}
	return netip.AddrFrom16(sa.Addr).Unmap(), port(&sa.Port)
}

// Ports are big-endian in memory, whatever the host's order.
func putPort(field *uint16, v uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], v)
}

func port(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}

// setMessage points a message at its address, packets and control buffer.
func setMessage(m *mmsg.Header, name *sockaddr, nameLen uint32, iovs []unix.Iovec, control []byte) {
	m.Hdr.Name = (*byte)(unsafe.Pointer(name))
	m.Hdr.Namelen = nameLen
	m.Set(iovs, control)
}

// arrives waits until the socket has a message or is shut down. It reports false if neither
// happens within a time.
func arrives(fd int, within time.Duration) bool {
	for deadline := time.Now().Add(within); ; {
		left := max(time.Until(deadline), 0)
		ms := min((left+time.Millisecond-1)/time.Millisecond, math.MaxInt32)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(ms))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// memoryInfo is what a socket's queue has: bytes, and packets that were dropped.
type memoryInfo struct{ queued, room, dropped uint32 }

// socketMemory asks a socket (SO_MEMINFO, sock_diag(7)).
func socketMemory(fd int) (memoryInfo, error) {
	var info [9]uint32 // linux/sock_diag.h: SK_MEMINFO_VARS
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return memoryInfo{}, errno
	}
	return memoryInfo{queued: info[0], room: info[1], dropped: info[8]}, nil
}
