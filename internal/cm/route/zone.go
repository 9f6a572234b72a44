package route

import (
	"net"
	"net/netip"
	"strconv"
)

// WithZone returns ip with an interface as its zone if it is link-local.
func WithZone(ip netip.Addr, index int) netip.Addr {
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return ip.WithZone(strconv.Itoa(index))
	}
	return ip
}

// ZoneIndex returns the index of the interface that the zone of an address names; 0 if
// it has none, or names an interface that does not exist.
func ZoneIndex(ip netip.Addr) int {
	zone := ip.Zone()
	if zone == "" {
		return 0
	}
	if n, err := strconv.Atoi(zone); err == nil {
		return n
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return ifi.Index
}
