package doctor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/wire"
	"golang.org/x/sys/unix"
)

// An Address is one that a device would use.
type Address struct {
	netip.Addr
	Interface string
	Down      bool // the interface is not up, or has no carrier
}

func (h *Host) network() []Finding {
	addresses, err := h.Addresses()
	if err != nil {
		none := Finding{"interface", Failure, err.Error(), "set an interface up and give it an address (`ip link set lo up`, `ip address`)"}
		return []Finding{none, leftOut(portSubject, none), h.offloads()}
	}
	at := Finding{Subject: "interface", Text: fmt.Sprintf("%s, with %d addresses", addresses[0].Interface, len(addresses))}
	if len(addresses) == 1 {
		at.Text = addresses[0].Interface + ", with 1 address"
	}
	if name := addresses[0].Interface; addresses[0].Down {
		at.Level = Warning
		at.Text = name + " is down: a program finds its device, whose port is in PORT_DOWN and carries nothing"
		at.Remedy = fmt.Sprintf("set it up (`ip link set %s up`), or use another with --device", name)
	}
	findings := []Finding{at}
	findings = append(findings, h.port(addresses))
	return append(findings, h.offloads())
}

var portSubject = "UDP port " + strconv.Itoa(wire.UDPPort)

// port looks for an address whose RoCEv2 port another process or the kernel has.
func (h *Host) port(addresses []Address) Finding {
	subject := portSubject
	for _, a := range addresses {
		err := h.Bind(a)
		switch {
		case err == nil:
		case errors.Is(err, unix.EADDRINUSE) && h.read("sys/module/rdma_rxe/refcnt") != "":
			return Finding{subject, Warning, fmt.Sprintf("taken on %v; the kernel's rdma_rxe is loaded", a.Addr),
				"see `rdma link`, remove its device with `rdma link delete`, or use an address that it does not have"}
		case errors.Is(err, unix.EADDRINUSE):
			return Finding{subject, Note, fmt.Sprintf("taken on %v, perhaps by a gorxe daemon (gorxe status)", a.Addr),
				"if that is another program, stop it, or use --device rxe0=ADDRESS with another address"}
		default:
			return Finding{subject, Warning, fmt.Sprintf("cannot be used on %v: %v", a.Addr, err),
				"a security policy or a container's restriction forbids it; use another address"}
		}
	}
	return Finding{Subject: subject, Text: "free"}
}

// offloads looks for what joins packets into fewer system calls.
func (h *Host) offloads() Finding {
	for _, o := range []struct {
		option int
		name   string
	}{{unix.UDP_SEGMENT, "UDP_SEGMENT (GSO)"}, {unix.UDP_GRO, "UDP_GRO"}} {
		if err := h.SocketOption(o.option); err != nil {
			return Finding{"UDP offloads", Warning, "no " + o.name + ", so bandwidth between devices is lower: " + err.Error(),
				"a sandbox's network stack may lack it; Linux has it since 5.0"}
		}
	}
	return Finding{Subject: "UDP offloads", Text: "GSO and GRO"}
}

// defaultAddresses returns those of the device that gorxe run makes by default.
func defaultAddresses() ([]Address, error) {
	list, err := verbsapi.GetDeviceList()
	if err != nil {
		return nil, err
	}
	for _, dev := range list {
		var addresses []Address
		port := dev.Port()
		for _, gid := range port.GIDs {
			// The zone of a link-local address is its interface.
			if addr := gid.Addr(); addr.IsValid() && !gid.IsZero() {
				addresses = append(addresses, Address{addr, port.Name, port.State.String() != "PORT_ACTIVE"})
			}
		}
		if len(addresses) > 0 {
			return addresses, nil // rxe0 is the first
		}
	}
	return nil, errors.New("no interface has a usable address")
}

// bindPort takes the port for a moment.
func bindPort(a Address) error {
	addr := &net.UDPAddr{IP: a.AsSlice(), Port: wire.UDPPort}
	if a.IsLinkLocalUnicast() {
		addr.Zone = a.Interface
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		// A default GID is no address of the host, and needs no port.
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil
		}
		return err
	}
	return conn.Close()
}

// hasUDPOption reads an option of a UDP socket.
func hasUDPOption(option int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	_, err = unix.GetsockoptInt(fd, unix.IPPROTO_UDP, option)
	return err
}
