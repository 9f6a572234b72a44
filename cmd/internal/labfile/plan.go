package labfile

import (
	"fmt"
	"github.com/gorxe/gorxe/internal/fault/rulefile/yamltext"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// plan checks what the file says about its nodes, and gives each port its device and its address.
func (f *file) plan() error {
	for i := range f.lab.Links {
		if err := f.checkLink(i); err != nil {
			return err
		}
	}
	networks, err := f.networks()
	if err != nil {
		return err
	}
	if err := f.addresses(networks); err != nil {
		return err
	}
	for name, n := range f.given {
		host, port, _ := strings.Cut(name, ":")
		if h := f.lab.Host(host); h == nil || h.Port(port) == nil {
			return yamltext.At(n, "exec: %s has no link at %s", host, port)
		}
	}
	return f.order()
}

func (l *Link) bad(format string, args ...any) error {
	return &Error{Line: l.line, Column: l.col, Err: fmt.Errorf(format, args...)}
}

func (h *Host) bad(format string, args ...any) error {
	return &Error{Line: h.line, Column: h.col, Err: fmt.Errorf(format, args...)}
}

// interfaceOf is what Linux takes as the name of an interface, and a device's flag.
var interfaceOf = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`)

// reserved are names of interfaces that no link may have: lo is on every host, and the others stand
// beside the interfaces in /proc/sys/net (ip-sysctl of the kernel).
var reserved = []string{"lo", "all", "default"}

// checkLink checks the ends of a link, and gives a host the port.
func (f *file) checkLink(i int) error {
	l := &f.lab.Links[i]
	for j := range l.Ends {
		e := &l.Ends[j]
		switch f.kinds[e.Node] {
		case "":
			return l.bad("the link ends at %q, and no node has this name", e.Node)
		case kindSwitch:
			e.Interface = "" // a switch's ports have no names here
			continue
		}
		h := f.lab.Host(e.Node)
		switch {
		case slices.Contains(reserved, e.Interface):
			return l.bad("%v: Linux has the interface name %s for something else: choose another", e, e.Interface)
		case e.Interface == "" || !interfaceOf.MatchString(e.Interface):
			return l.bad("%v: an end at a host has an interface of 15 letters at most, as in \"%s:eth1\"", e, e.Node)
		case h.Port(e.Interface) != nil:
			return l.bad("two links end at %v", e)
		case len(h.Ports) == maxPorts:
			return l.bad("%s has more than %d links", h.Name, maxPorts)
		}
		h.Ports = append(h.Ports, Port{Interface: e.Interface, Device: fmt.Sprintf("rxe%d", len(h.Ports)), Link: i})
	}
	switch a, b := l.Ends[0], l.Ends[1]; {
	case a.Node == b.Node:
		return l.bad("the link joins %s to itself", a.Node)
	case l.Shape != "" && a.Interface == "" && b.Interface == "":
		return l.bad("a link between two switches has no rate, latency, queue, loss or ecn: give them to the links of hosts")
	}
	return nil
}

// networks returns the network of each link: links at one switch are in one network, and so are
// those of switches with a link between them.
func (f *file) networks() ([]int, error) {
	root := make(map[string]string)
	find := func(name string) string {
		for root[name] != "" {
			name = root[name]
		}
		return name
	}
	for i := range f.lab.Links {
		l := &f.lab.Links[i]
		if l.Ends[0].Interface != "" || l.Ends[1].Interface != "" {
			continue
		}
		a, b := find(l.Ends[0].Node), find(l.Ends[1].Node)
		if a == b {
			return nil, l.bad("the switches %s and %s are joined already: this link makes a loop, in which packets would never end", l.Ends[0].Node, l.Ends[1].Node)
		}
		root[b] = a
	}
	numbers := make(map[string]int)
	networks := make([]int, len(f.lab.Links))
	for i := range f.lab.Links {
		name := fmt.Sprintf("link %d", i) // no name of a node
		for _, e := range f.lab.Links[i].Ends {
			if e.Interface == "" {
				name = find(e.Node)
			}
		}
		if numbers[name] == 0 {
			numbers[name] = len(numbers) + 1
		}
		networks[i] = numbers[name]
	}
	return networks, nil
}

// addresses gives each port an address: 10, two bytes for the network, and one for the host. exec
// may have another one.
func (f *file) addresses(networks []int) error {
	taken := make(map[netip.Addr]string)
	for i := range f.lab.Hosts {
		h := &f.lab.Hosts[i]
		if len(h.Ports) == 0 {
			return h.bad("host %s has no link", h.Name)
		}
		in := make(map[int]string)
		for j := range h.Ports {
			p := &h.Ports[j]
			n := networks[p.Link]
			if in[n] != "" {
				return h.bad("%s and %s of %s are in one network: give each a switch of its own", in[n], p.Interface, h.Name)
			}
			in[n] = p.Interface
			p.Address = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), byte(i + 1)}), 24)
			if g := f.given[h.Name+":"+p.Interface]; g != nil {
				a, err := netip.ParsePrefix(g.Value)
				if err != nil || !a.Addr().Is4() || !a.Addr().IsGlobalUnicast() {
					return yamltext.At(g, "exec: %q is not an IPv4 address with the length of its network, as 10.0.0.1/24", g.Value)
				}
				p.Address = a
			}
			if other := taken[p.Address.Addr()]; other != "" {
				return h.bad("%s and %s:%s have the address %v", other, h.Name, p.Interface, p.Address.Addr())
			}
			taken[p.Address.Addr()] = h.Name + ":" + p.Interface
		}
	}
	return nil
}

// order checks the names of wait-for, which may not lead back to the host.
func (f *file) order() error {
	const under, done = 1, 2
	state := make(map[string]int)
	var path []string
	var visit func(h *Host) error
	visit = func(h *Host) error {
		if state[h.Name] == done {
			return nil
		}
		path = append(path, h.Name)
		if state[h.Name] == under {
			return h.bad("wait-for: %s: each waits for the next, and no one begins", strings.Join(path[slices.Index(path, h.Name):], ", "))
		}
		state[h.Name] = under
		for _, name := range h.WaitFor {
			other := f.lab.Host(name)
			if other == nil {
				return h.bad("wait-for: no host has the name %q", name)
			}
			if err := visit(other); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[h.Name] = done
		return nil
	}
	for i := range f.lab.Hosts {
		if err := visit(&f.lab.Hosts[i]); err != nil {
			return err
		}
	}
	return nil
}
