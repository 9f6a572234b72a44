package engine

import (
	"encoding/binary"
	"hash/fnv"
	"net"
)

// GUID returns the node's EUI-64. Two devices on one interface differ in their Address, and
// therefore in their GUID. Two hosts differ in what tells their interfaces apart: peers
// know a connection by the GUID and a number (IBA 12.9.8.3.1).
func (c *Config) GUID() uint64 { return c.guid(interfaceID(c.Interface)) }

// guid is GUID for an interface with the identity id. It is locally administered: bit 1 of the
// first byte (RFC 4291, appendix A).
func (c *Config) guid(id []byte) uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.Interface)) // never fails, as below
	if c.Address.IsValid() {
		b := c.Address.As16()
		h.Write(b[:])
	}
	h.Write(id)
	binary.Write(h, binary.BigEndian, c.Port) //nolint:errcheck // as above
	return h.Sum64()&^(3<<56) | 2<<56
}

// interfaceID returns what tells an interface from one of the same name on another host: its
// hardware address or, without one, its first global IP address. It is nil for the loopback
// interface, whose packets reach no other host, and for one that does not exist.
func interfaceID(name string) []byte {
	i, err := net.InterfaceByName(name)
	if err != nil || i.Flags&net.FlagLoopback != 0 {
		return nil
	}
	if len(i.HardwareAddr) > 0 {
		return i.HardwareAddr
	}
	addrs, _ := i.Addrs() // none on an error
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.To16()
		}
	}
	return nil
}
