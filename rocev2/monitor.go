package rocev2

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// attachment says which network interface a port is on. The name stays while the interface
// is gone; the index is 0 then.
type attachment struct {
	name  string
	index int
}

func (p *Port) attach(l netlink.Link) {
	p.at.Store(&attachment{name: l.Attrs().Name, index: l.Attrs().Index})
}

// monitor follows the port's interface. After each netlink message it reads the whole
// state again, so lost or merged messages do no harm.
type monitor struct {
	port    *Port
	handle  *netlink.Handle   // for questions
	events  *nl.NetlinkSocket // for notifications
	closing atomic.Bool
	running sync.WaitGroup
}

// newMonitor subscribes to changes. The monitor then owns the handle.
func newMonitor(p *Port, h *netlink.Handle) (*monitor, error) {
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return nil, &PortError{Op: "follow", Object: "interface " + p.at.Load().name, Kind: permissionKind(err), Cause: err}
	}
	return &monitor{port: p, handle: h, events: events}, nil
}

func (m *monitor) start() {
	m.running.Add(1)
	go func() {
		defer m.running.Done()
		m.run()
	}()
}

func (m *monitor) stop() {
	m.closing.Store(true)
	m.events.Close()
	m.running.Wait()
	m.handle.Close()
}

func (m *monitor) run() {
	for {
		msgs, _, err := m.events.Receive()
		switch {
		case m.closing.Load(): // with any error
			return
		case err != nil:
			// ENOBUFS: notifications were lost, so anything may have changed.
			m.port.refresh(false)
		case slices.ContainsFunc(msgs, m.concerns):
			m.port.refresh(slices.ContainsFunc(msgs, m.deletes))
		}
	}
}

// concerns reports whether a notification is about the port's interface. Both
// struct ifinfomsg and struct ifaddrmsg have the index at offset 4. While the interface is
// gone, any may be about the next one.
func (m *monitor) concerns(msg syscall.NetlinkMessage) bool {
	index := m.port.at.Load().index
	return index == 0 || len(msg.Data) >= 8 && int(int32(binary.NativeEndian.Uint32(msg.Data[4:]))) == index
}

// deletes reports whether a notification, which begins with a struct ifinfomsg, says that the
// port's interface was deleted. A bridge says the same of a port that leaves it, in its own family.
func (m *monitor) deletes(msg syscall.NetlinkMessage) bool {
	return msg.Header.Type == unix.RTM_DELLINK && len(msg.Data) >= 8 && msg.Data[0] == unix.AF_UNSPEC && m.concerns(msg)
}

// refresh brings the port in line with its interface. Deleted says that the interface was
// deleted, and that one with its index is another.
func (p *Port) refresh(deleted bool) {
	var link netlink.Link
	var err error
	if p.at.Load().index != 0 {
		link, err = p.monitor.handle.LinkByIndex(p.at.Load().index)
		if deleted || isGone(err) {
			p.lose()
		} else if err != nil {
			p.log.Warn("cannot read the state of the interface", "interface", p.at.Load().name, "error", err)
			return
		}
	}
	if p.at.Load().index == 0 {
		if link, err = p.find(); err != nil {
			return // the next notification may be about it
		}
	}
	addrs, err := currentAddrs(p.monitor.handle, link, p.cfg.Address)
	if err != nil {
		p.log.Warn("cannot read the interface's addresses", "interface", p.at.Load().name, "error", err)
		return
	}
	stale, changed := p.apply(link, addrs)
	p.closeEndpoints(stale)
	p.notify(changed)
}

// closeEndpoints is called without the lock, because a receiver may be inside Send.
func (p *Port) closeEndpoints(list []*endpoint) {
	deadline := time.Now().Add(p.closeTimeout)
	for _, e := range list {
		e.rx.stop(deadline)
		e.closeSources()
	}
}

// apply opens and removes endpoints. It returns the removed ones, to be closed.
func (p *Port) apply(link netlink.Link, addrs []netip.Addr) (stale []*endpoint, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	for a, e := range p.endpoints {
		if !slices.Contains(addrs, a) {
			stale = append(stale, e)
			delete(p.endpoints, a)
		}
	}
	var usable []netip.Addr
	for _, a := range addrs {
		if p.endpoints[a] == nil {
			e, err := p.openEndpoint(a)
			if err != nil {
				p.log.Warn("a new address stays out of the GID table", "interface", p.at.Load().name, "error", err)
				continue
			}
			p.endpoints[a] = e
			e.rx.start()
		}
		usable = append(usable, a)
	}
	p.rejoin()
	p.gids.update(usable)
	p.setOwn(usable)
	return stale, p.setInfo(linkInfo(link))
}

func (p *Port) notify(changed bool) {
	if changed && p.cfg.OnPort != nil {
		p.cfg.OnPort(p.Info())
	}
}
