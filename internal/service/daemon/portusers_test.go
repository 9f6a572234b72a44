package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
)

// TestPortUsers: the program that has a UDP port is found, and whether its socket has every
// address.
func TestPortUsers(t *testing.T) {
	for address, everywhere := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true, "[::]:0": true} {
		conn, err := net.ListenPacket("udp", address)
		if err != nil && strings.HasPrefix(address, "[") {
			continue // a host without IPv6
		}
		must.OK(t, err)
		at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
		if everywhere {
			at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
		}
		isThis := func(u portUser) bool { return u.pid == os.Getpid() && u.everywhere == everywhere }
		users := portUsers(at)
		if !slices.ContainsFunc(users, isThis) {
			t.Errorf("%s: %+v", address, users)
		}
		if want := fmt.Sprintf("%s[%d] of user %d", filepath.Base(os.Args[0]), os.Getpid(), os.Getuid()); !strings.Contains(remedy(users), want) {
			t.Errorf("%s: %s is not in: %s", address, want, remedy(users))
		}
		must.OK(t, conn.Close())
	}
}

// TestPortRemedy: what is advised helps. Against a socket of every address no other address does.
func TestPortRemedy(t *testing.T) {
	here, all := portUser{uid: "1", pid: 1}, portUser{uid: "0", everywhere: true}
	for _, c := range []struct {
		users    []portUser
		says, no string
	}{
		{nil, "--private", "has it"},
		{[]portUser{here}, "--private", "unshare"},
		{[]portUser{all}, "run in a\nnetwork namespace of your own: gorxe pair --hosts", "Take"},
		{[]portUser{here, here, all}, "[1] of user 1", "Take"},
		{[]portUser{{uid: "0"}}, "ss -ulpn", "every address"},
		{[]portUser{{uid: "77777"}}, "user 77777 (sudo ss -ulpn names the program) has it", "rdma_rxe"},
	} {
		if got := remedy(c.users); !strings.Contains(got, c.says) || strings.Contains(got, c.no) {
			t.Errorf("%+v: want %q and not %q:\n%s", c.users, c.says, c.no, got)
		}
	}
}
