package rocev2

import (
	"errors"
	"math/rand/v2"
	"net/netip"
)

// OnFreeLoopback calls open with addresses of 127.64.0.0/10, until open returns something else than
// ErrPortTaken. Two processes that do so at once get different addresses, because open binds the
// UDP port: nobody looks first and binds later. Hosts keep 127.0.0.0/8 to themselves (RFC 1122,
// 3.2.1.3).
func OnFreeLoopback(open func(netip.Addr) error) (err error) {
	for range freeAttempts {
		n := rand.Uint32()
		if err = open(netip.AddrFrom4([4]byte{127, byte(64 | n>>16&63), byte(n >> 8), byte(n)})); !errors.Is(err, ErrPortTaken) {
			return err
		}
	}
	return err
}
