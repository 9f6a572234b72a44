// Package labfile reads the file of a lab: hosts, switches, and the links between them.
//
//	topology:
//	  nodes:
//	    h[1-4]: {kind: linux, cmd: "./test"}
//	    leaf: {kind: bridge}
//	  links:
//	    - endpoints: ["h[1-4]:eth1", "leaf"]
//	      rate: 10gbit
//	      latency: 5us
//
// The words are those of containerlab's topology file, as far as it has them, and a file of
// containerlab whose nodes have the kinds linux and bridge can be read. Unknown keys are errors. A
// mistake is reported with its line and column. The package does no I/O.
package labfile

import (
	"net"
	"net/netip"
	"regexp"

	"github.com/gorxe/gorxe/internal/fault/rulefile/yamltext"
)

// The limits of a file. One machine has all hosts.
const (
	MaxBytes    = 1 << 20
	maxHosts    = 250 // each has a last byte of an address
	maxSwitches = 250
	maxLinks    = 4096
	maxPorts    = 64 // of a host
)

// Lab is what a file describes.
type Lab struct {
	Name     string
	Hosts    []Host // in the order of the file
	Switches []string
	Links    []Link
}

// Host is one host.
type Host struct {
	Name    string
	Command []string // its program; nil: the file has none
	Env     []string // NAME=VALUE
	WaitFor []string // hosts whose programs are ready before this one starts
	// a line of the program's output that says that it is ready; nil: it is when it listens
	ReadyWhen *regexp.Regexp
	// Background: the program runs until those of the other hosts have ended.
	Background bool
	Ports      []Port // in the order of the links
	line, col  int
}

// Port is an interface of a host with a device on it.
type Port struct {
	Interface string
	Device    string // rxe0 is that of the first port
	Address   netip.Prefix
	Link      int // index of Lab.Links
}

// MAC returns the hardware address of the interface. It follows from the IPv4 address.
func (p *Port) MAC() net.HardwareAddr {
	a := p.Address.Addr().As4()
	return net.HardwareAddr{0x02, 0x00, a[0], a[1], a[2], a[3]}
}

// LinkLocal returns the address that Linux gives the interface for its MAC (RFC 4291, appendix A).
func (p *Port) LinkLocal() netip.Addr {
	m := p.MAC()
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// Link joins two hosts, a host and a switch, or two switches.
type Link struct {
	Ends [2]End
	MTU  int
	// Shape has the keys of a fault rule "packet shape" in its grammar, as "rate=1gbit,loss=1%";
	// empty: the link is as fast as the machine.
	Shape     string
	line, col int
}

// End is an end of a link. Interface is empty at a switch.
type End struct{ Node, Interface string }

func (e End) String() string {
	if e.Interface == "" {
		return e.Node
	}
	return e.Node + ":" + e.Interface
}

// NameDevices gives the devices of all hosts other names. name is for that of the index-th port.
func (l *Lab) NameDevices(name func(index int) string) {
	for i := range l.Hosts {
		for j := range l.Hosts[i].Ports {
			l.Hosts[i].Ports[j].Device = name(j)
		}
	}
}

// Host returns the host of a name, or nil.
func (l *Lab) Host(name string) *Host {
	for i := range l.Hosts {
		if l.Hosts[i].Name == name {
			return &l.Hosts[i]
		}
	}
	return nil
}

// Port returns the port of an interface, or nil. An empty name is the first port.
func (h *Host) Port(name string) *Port {
	for i := range h.Ports {
		if name == "" || h.Ports[i].Interface == name {
			return &h.Ports[i]
		}
	}
	return nil
}

// Error says what is wrong in a file, and where.
type Error = yamltext.Error

// Parse reads a file. An error is an *Error.
func Parse(text []byte) (*Lab, error) {
	root, err := yamltext.Read(text, MaxBytes, "the file is empty: a lab begins with \"topology:\"")
	if err != nil {
		return nil, err
	}
	f := file{lab: new(Lab), kinds: make(map[string]string)}
	if err := f.read(root); err != nil {
		return nil, err
	}
	if err := f.plan(); err != nil {
		return nil, err
	}
	return f.lab, nil
}
