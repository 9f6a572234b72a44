package engine

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/rxe"
)

// Station describes the device as a station of an Ethernet segment. Its address is that of the
// port's interface. An interface without one, such as lo, has one of the device's own.
func (e *Engine) Station() segment.Config {
	return segment.Config{MAC: e.MAC(), MTU: e.frameMTU, Wake: e.dev.Wake}
}

// MAC returns the Ethernet address of the device.
func (e *Engine) MAC() (mac [6]byte) {
	if copy(mac[:], e.Port().Info().MAC); mac != [6]byte{} {
		return mac
	}
	var guid [8]byte
	binary.BigEndian.PutUint64(guid[:], e.dev.GUID())
	copy(mac[:], guid[2:])
	mac[0] = mac[0]&^1 | 2 // one station's address, locally administered (IEEE 802, 8.2)
	return mac
}

// frameMTU is what a frame may carry behind its Ethernet header and its tags.
func (e *Engine) frameMTU() int { return min(e.Port().Info().MTU, rxe.MaxFrame-segment.HeaderSpace) }
