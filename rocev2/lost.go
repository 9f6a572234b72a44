package rocev2

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Tunnels, VLANs, bridges and container networks delete interfaces and make them again. The
// new one has another index, and perhaps another MAC. The port goes down with the old one,
// and takes the new one by the name or address that it was opened with.

// isGone reports whether a question about an interface failed because there is none.
func isGone(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, unix.ENODEV)
}

// lose gives up the interface with all sockets: these are bound to its addresses and its
// index. The groups stay, and are joined again on the next interface.
func (p *Port) lose() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	lost := p.at.Load()
	endpoints := slices.Collect(maps.Values(p.endpoints))
	clear(p.endpoints)
	var receivers []*receiver
	for _, g := range p.groups {
		if g.rx != nil {
			receivers = append(receivers, g.rx)
			g.rx = nil
		}
	}
	p.at.Store(&attachment{name: lost.name})
	p.gids.update(nil)
	p.setOwn(nil)
	info := p.info
	info.State, info.Index = PortDown, 0
	changed := p.setInfo(info)
	p.mu.Unlock()

	p.log.Warn("the interface was deleted: the port is down until there is one again", "interface", lost.name, "index", lost.index)
	p.closeEndpoints(endpoints)
	deadline := time.Now().Add(p.closeTimeout)
	for _, rx := range receivers {
		rx.stop(deadline)
	}
	p.notify(changed)
}

// find attaches the port to the interface that Open would choose now.
func (p *Port) find() (netlink.Link, error) {
	link, err := findLink(p.monitor.handle, p.cfg.Interface, p.cfg.Address)
	if err != nil {
		return nil, err
	}
	var def netip.Addr
	if !p.cfg.Address.IsValid() {
		if def, err = defaultGID(p.monitor.handle, link); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &PortError{Op: "follow", Object: "interface " + link.Attrs().Name, Kind: ErrClosed}
	}
	p.attach(link)
	p.gids.setDefault(def)
	p.log.Info("there is an interface again", "interface", link.Attrs().Name, "index", link.Attrs().Index)
	return link, nil
}

// rejoin joins the groups that have no socket. The caller holds mu.
func (p *Port) rejoin() {
	for addr, g := range p.groups {
		if g.rx != nil {
			continue
		}
		rx, err := p.joinOn(addr)
		if err != nil {
			p.log.Warn("a multicast group is not joined on the new interface", "error", err)
			continue
		}
		g.rx = rx
		rx.start()
	}
}
