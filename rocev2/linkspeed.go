package rocev2

import (
	"encoding/binary"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// linkSpeed returns the speed of an interface in Mb/s, 0 if it is not known.
func linkSpeed(l netlink.Link) int {
	a := l.Attrs()
	if a.RawFlags&unix.IFF_LOOPBACK != 0 || l.Type() == "veth" {
		return memorySpeed
	}
	return ethtoolSpeed(a.Name)
}

// Fields of struct ethtool_cmd (include/uapi/linux/ethtool.h).
const (
	ethtoolCmdSize = 44
	offSpeed       = 12 // the low 16 bits
	offSpeedHigh   = 28
)

// ethtoolSpeed asks the driver. The question is asked with a socket and not through
// /sys, which may show another network namespace's interfaces.
func ethtoolSpeed(name string) int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var cmd [ethtoolCmdSize]byte
	binary.NativeEndian.PutUint32(cmd[:], unix.ETHTOOL_GSET)
	ifr := struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&cmd)}
	copy(ifr.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
	if errno != 0 {
		return 0 // the driver has no such notion
	}
	low, high := binary.NativeEndian.Uint16(cmd[offSpeed:]), binary.NativeEndian.Uint16(cmd[offSpeedHigh:])
	speed := int32(uint32(high)<<16 | uint32(low)) // struct ethtool_cmd; SPEED_UNKNOWN is -1
	return int(max(speed, 0))
}
