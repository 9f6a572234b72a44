package rocev2

import (
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

func TestOpenErrors(t *testing.T) {
	taken := netip.MustParseAddr("127.0.15.1")
	open(t, Config{Address: taken, Receiver: discard})
	tests := []struct {
		name string
		cfg  Config
		want error
		says []string
	}{
		{"port taken", Config{Address: taken, Receiver: discard}, ErrPortTaken,
			[]string{"UDP port 4791 on 127.0.15.1", "rdma_rxe", "another gorxe", "address already in use"}},
		{"no such interface", Config{Interface: "nosuch0", Receiver: discard}, ErrNoInterface, []string{"nosuch0", "lo"}},
		{"no such address", Config{Address: netip.MustParseAddr("192.0.2.1"), Receiver: discard}, ErrNoAddress, []string{"192.0.2.1", "127.0.0.1 (lo)"}},
		{"address elsewhere", Config{Interface: "lo", Address: netip.MustParseAddr("192.0.2.1"), Receiver: discard}, ErrNoAddress, []string{"interface lo"}},
		{"nothing to open", Config{Receiver: discard}, ErrConfig, []string{"Config.Interface"}},
		{"no receiver", Config{Address: taken}, ErrConfig, []string{"Config.Receiver"}},
		{"any address", Config{Address: netip.IPv4Unspecified(), Receiver: discard}, ErrConfig, []string{"Config.Address"}},
		{"group address", Config{Address: netip.MustParseAddr("ff02::1"), Receiver: discard}, ErrConfig, []string{"Config.Address"}},
		{"zone against interface", Config{Interface: "lo", Address: netip.MustParseAddr("fe80::1%eth9"), Receiver: discard}, ErrConfig, []string{"eth9"}},
		{"source ports", Config{Address: taken, Receiver: discard, SourcePorts: 65}, ErrConfig, []string{"SourcePorts"}},
		{"buffer", Config{Address: taken, Receiver: discard, SocketBuffer: -1}, ErrConfig, []string{"SocketBuffer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Open(tt.cfg)
			if err == nil {
				p.Close()
			}
			checkError(t, err, tt.want, tt.says)
		})
	}
}

func checkError(t *testing.T, err, want error, says []string) {
	t.Helper()
	var typed *PortError
	if !errors.Is(err, want) || !errors.As(err, &typed) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

func TestInterfaceWithoutAddress(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	must.OK(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}))
	_, err := Open(Config{Interface: "v0", Receiver: discard})
	checkError(t, err, ErrNoAddress, []string{"interface v0", "ip link set v0 up", "ip address add"})
	v0, err := netlink.LinkByName("v0")
	must.OK(t, err)
	must.OK(t, netlink.LinkSetUp(v0))
	_, err = Open(Config{Interface: "v0", Receiver: discard})
	checkError(t, err, ErrNoAddress, []string{"interface v0: no usable address: it has no usable IP address", "ip address add"})
	must.OK(t, netlink.LinkSetDown(v0))
	infos, err := Interfaces()
	must.OK(t, err)
	for _, i := range infos {
		if i.Name == "v0" && (len(i.GIDs) != 0 || i.State != PortDown) || i.Name == "lo" && i.State != PortActive {
			t.Errorf("got %+v", i)
		}
	}
	for _, i := range infos {
		if (i.Name == "v0" || i.Name == "lo") && i.SpeedMbps != 40000 {
			t.Errorf("%s has %d Mb/s", i.Name, i.SpeedMbps)
		}
	}
	// What the drivers say (drivers/net/veth.c: veth_get_link_ksettings; lo has none).
	if veth, lo := ethtoolSpeed("v0"), ethtoolSpeed("lo"); veth != 10000 || lo != 0 {
		t.Errorf("ethtool says %d Mb/s for a veth, %d for lo", veth, lo)
	}
	if name, err := DefaultInterface(); name != "lo" || err != nil {
		t.Errorf("default interface %q, %v", name, err)
	}
}

func TestPermission(t *testing.T) {
	if !testenv.OwnNetwork(t) {
		return
	}
	// Capabilities are the thread's, and the sockets are made on this one. The
	// thread is never unlocked, so it ends with the test.
	runtime.LockOSThread()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	must.OK(t, unix.Capget(&head, &caps[0]))
	caps[0].Effective &^= 1 << unix.CAP_NET_BIND_SERVICE
	must.OK(t, unix.Capset(&head, &caps[0]))
	_, err := Open(Config{Address: netip.MustParseAddr("127.0.0.1"), Port: 80, Receiver: discard})
	checkError(t, err, ErrPermission, []string{"UDP port 80 on 127.0.0.1"})
}

func TestJoinErrors(t *testing.T) {
	p := open(t, Config{Address: netip.MustParseAddr("127.0.16.1"), Receiver: discard})
	group := netip.MustParseAddr("239.8.8.8")
	checkError(t, p.JoinGroup(netip.MustParseAddr("10.0.0.1")), ErrConfig, []string{"10.0.0.1"})
	checkError(t, p.LeaveGroup(group), ErrConfig, []string{"not joined"})
	p.Close()
	checkError(t, p.JoinGroup(group), ErrClosed, nil)
	checkError(t, p.LeaveGroup(group), ErrClosed, nil)
}

// TestSaidOnce: the kind and the cause of an error may have the same words.
func TestSaidOnce(t *testing.T) {
	err := &PortError{Op: "open", Object: "netlink socket", Kind: ErrPermission, Cause: unix.EACCES}
	if got := err.Error(); got != "open netlink socket: permission denied" {
		t.Error(got)
	}
}
