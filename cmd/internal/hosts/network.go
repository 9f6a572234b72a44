package hosts

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
)

// Network is the hosts, switches and links of a lab. The switches are bridges in the network
// namespace of this process.
type Network struct {
	hosts map[string]*host
	lab   *labfile.Lab
}

// New makes the network of a lab. This process must be in namespaces of its own (Enter). If names
// is not empty, each host knows its name, and the file names is its /etc/hosts.
func New(lab *labfile.Lab, names string) (*Network, error) {
	n := &Network{hosts: make(map[string]*host), lab: lab}
	if err := n.build(names); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// build makes the hosts, switches and links. After an error some are there.
func (n *Network) build(names string) error {
	lab := n.lab
	for i := range lab.Hosts {
		name := lab.Hosts[i].Name
		known := name
		if names == "" {
			known = ""
		}
		h, err := newHost(known, names)
		if err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
		n.hosts[name] = h
	}
	if err := n.fabric(); err != nil {
		return err
	}
	return n.each(func(h *labfile.Host) error {
		joints := []joint{{name: "lo"}}
		for _, p := range h.Ports {
			joints = append(joints, joint{p.Interface, p.Address})
		}
		return n.hosts[h.Name].there(func() error { return bringUp(joints) })
	})
}

// each calls a function for all hosts at once, and returns the first error.
func (n *Network) each(f func(*labfile.Host) error) error {
	errs := make([]error, len(n.lab.Hosts))
	var all sync.WaitGroup
	for i := range n.lab.Hosts {
		all.Go(func() { errs[i] = f(&n.lab.Hosts[i]) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("host %s: %w", n.lab.Hosts[i].Name, err)
		}
	}
	return nil
}

// fabric makes the switches and the links.
func (n *Network) fabric() error {
	if len(n.lab.Switches) > 0 {
		// The ends of links at switches need no addresses of their own.
		os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0) //nolint:errcheck // they have some then
	}
	h, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	bridges := make(map[string]netlink.Link)
	for i, name := range n.lab.Switches {
		b := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
		b.Name = fmt.Sprintf("s%d", i) // a switch's name may be too long for an interface
		if err := h.LinkAdd(b); err != nil {
			return fmt.Errorf("switch %s: %w", name, err)
		}
		bridges[name] = b
	}
	for i := range n.lab.Links {
		l := &n.lab.Links[i]
		if err := n.link(h, i, bridges); err != nil {
			return fmt.Errorf("the link between %v and %v: %w", l.Ends[0], l.Ends[1], err)
		}
	}
	for name, b := range bridges {
		if err := h.LinkSetUp(b); err != nil {
			return fmt.Errorf("switch %s: %w", name, err)
		}
	}
	return nil
}

// link makes one link. Its ends at switches are in this namespace, and up.
func (n *Network) link(h *netlink.Handle, i int, bridges map[string]netlink.Link) error {
	l := &n.lab.Links[i]
	a, b := l.Ends[0], l.Ends[1]
	if a.Interface != "" && b.Interface == "" {
		a, b = b, a
	}
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: b.Interface}
	veth.Name, veth.MTU, veth.PeerMTU = a.Interface, l.MTU, uint32(l.MTU)
	if a.Interface != "" {
		veth.HardwareAddr = n.lab.Host(a.Node).Port(a.Interface).MAC()
	}
	if b.Interface != "" {
		veth.PeerHardwareAddr = n.lab.Host(b.Node).Port(b.Interface).MAC()
		veth.PeerNamespace = netlink.NsFd(int(n.hosts[b.Node].space.Fd()))
	}
	if a.Interface != "" { // between two hosts
		return n.hosts[a.Node].there(func() error { return addLink(veth) })
	}
	veth.Name, veth.MasterIndex = fmt.Sprintf("l%da", i), bridges[a.Node].Attrs().Index
	if b.Interface == "" {
		veth.PeerName = fmt.Sprintf("l%db", i)
	}
	if err := h.LinkAdd(veth); err != nil {
		return err
	}
	joints := []joint{{veth.Name, netip.Prefix{}}}
	if b.Interface == "" {
		joints = append(joints, joint{veth.PeerName, netip.Prefix{}})
		peer, err := h.LinkByName(veth.PeerName)
		if err != nil {
			return err
		}
		if err := h.LinkSetMaster(peer, bridges[b.Node]); err != nil {
			return err
		}
	}
	for _, j := range joints {
		if err := j.bringUp(h); err != nil {
			return err
		}
	}
	return nil
}

// addLink makes a link with one end in the thread's namespace.
func addLink(link netlink.Link) error {
	h, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	return h.LinkAdd(link)
}

// Start starts a command on a host. It is killed when the network is closed or this process ends.
func (n *Network) Start(host string, cmd *exec.Cmd) error {
	h := n.hosts[host]
	if h == nil {
		return errGone
	}
	return h.start(cmd)
}

// Close ends the hosts. Their interfaces end with the last process there.
func (n *Network) Close() {
	for _, h := range n.hosts {
		h.end()
	}
	n.hosts = nil
}
