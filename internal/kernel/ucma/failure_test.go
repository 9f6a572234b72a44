package ucma

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/explain"
)

// TestFailure: each event that says that something failed is an error that gorxe explains.
func TestFailure(t *testing.T) {
	const timedOut = -int32(unix.ETIMEDOUT)
	for _, c := range []struct {
		ev   rdmacm.Event
		side explain.Side
		says string
	}{
		{rdmacm.Event{Kind: rdmacm.AddrError, Status: -int32(unix.ENODEV)}, explain.Program, "rdma_resolve_addr failed with ENODEV: no device has a route to the address; choose an address"},
		{rdmacm.Event{Kind: rdmacm.AddrError, Status: timedOut}, explain.Unreachable, "rdma_resolve_addr failed with ETIMEDOUT: no host answers for the address on its link; see"},
		{rdmacm.Event{Kind: rdmacm.AddrError, Status: -int32(unix.ENETUNREACH)}, explain.Program, "rdma_resolve_addr failed with ENETUNREACH: no route leads to the address; see ip route."},
		{rdmacm.Event{Kind: rdmacm.AddrError, Status: -int32(unix.EINVAL), UD: &rdmacm.UDEvent{}}, explain.Program, "rdma_connect failed with EINVAL: the peer's answer has no Q_Key"},
		{rdmacm.Event{Kind: rdmacm.RouteError, Status: -int32(unix.EHOSTUNREACH)}, explain.Program, "rdma_resolve_route failed with EHOSTUNREACH"},
		{rdmacm.Event{Kind: rdmacm.ConnectError, Status: -int32(unix.EINVAL)}, explain.Program, "rdma_connect failed with EINVAL"},
		{rdmacm.Event{Kind: rdmacm.Unreachable, Status: timedOut}, explain.Unreachable, "rdma_connect failed with ETIMEDOUT"},
		{rdmacm.Event{Kind: rdmacm.Unreachable, Status: 2, UD: &rdmacm.UDEvent{}}, explain.Peer, "rdma_connect failed with ECONNREFUSED: the peer refused it (SIDR status 2)"},
		{rdmacm.Event{Kind: rdmacm.Rejected, Status: 28}, explain.Peer, "rdma_connect failed with ECONNREFUSED: the peer rejected it"},
		{rdmacm.Event{Kind: rdmacm.Rejected, Status: 28, Peer: netip.MustParseAddrPort("[::1]:7")}, explain.Peer, "rdma_connect failed with ECONNREFUSED: [::1]:7 rejected it: consumer reject (reject reason 28); if it listens for IPv4 only, give its IPv4 address: localhost may be ::1."},
		{rdmacm.Event{Kind: rdmacm.MulticastError, Status: -int32(unix.ENOMEM)}, explain.Program, "rdma_join_multicast failed with ENOMEM"},
		{rdmacm.Event{Kind: rdmacm.AddrResolved}, "", ""},
		{rdmacm.Event{Kind: rdmacm.Established}, "", ""},
		{rdmacm.Event{Kind: rdmacm.Disconnected}, "", ""},
	} {
		verb, err := failure(&c.ev)
		if err == nil {
			if c.says != "" {
				t.Errorf("%v, status %d: no error", c.ev.Kind, c.ev.Status)
			}
			continue
		}
		r := explain.Refused(verb, errnoOf(err).(unix.Errno), err)
		if text := r.String(); c.says == "" || !strings.HasPrefix(text, c.says) || r.Fault != c.side || len(strings.Fields(text)) >= 30 {
			t.Errorf("%v, status %d: %s: %s, want %s: %s", c.ev.Kind, c.ev.Status, r.Fault, text, c.side, c.says)
		}
	}
}
