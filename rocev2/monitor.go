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
		return nil, &PortError{Op: "follow", Object: "interface " + p.name, Kind: permissionKind(err), Cause: err}
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
			m.port.refresh()
		case slices.ContainsFunc(msgs, m.concerns):
			m.port.refresh()
		}
	}
}

// concerns reports whether a notification is about the port's interface. Both
// struct ifinfomsg and struct ifaddrmsg have the index at offset 4.
func (m *monitor) concerns(msg syscall.NetlinkMessage) bool {
	return len(msg.Data) >= 8 && int(int32(binary.NativeEndian.Uint32(msg.Data[4:]))) == m.port.index
}

// refresh brings the port in line with its interface.
func (p *Port) refresh() {
	link, err := p.monitor.handle.LinkByIndex(p.index)
	if err != nil {
		// The interface is gone: what was bound stays, and reaches nobody.
		p.mu.Lock()
		info := p.info
		info.State = PortDown
		changed := !p.closed && p.setInfo(info)
		p.mu.Unlock()
		p.notify(changed)
		return
	}
	addrs, err := currentAddrs(p.monitor.handle, link, p.cfg.Address)
	if err != nil {
		p.log.Warn("cannot read the interface's addresses", "interface", p.name, "error", err)
		return
	}
	stale, changed := p.apply(link, addrs)
	// Outside the lock: a receiver may be inside Send.
	deadline := time.Now().Add(p.closeTimeout)
	for _, e := range stale {
		e.rx.stop(deadline)
		e.closeSources()
	}
	p.notify(changed)
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
				p.log.Warn("a new address stays out of the GID table", "interface", p.name, "error", err)
				continue
			}
			p.endpoints[a] = e
			e.rx.start()
		}
		usable = append(usable, a)
	}
	p.gids.update(usable)
	p.setOwn(usable)
	return stale, p.setInfo(linkInfo(link))
}

func (p *Port) notify(changed bool) {
	if changed && p.cfg.OnPort != nil {
		p.cfg.OnPort(p.Info())
	}
}
