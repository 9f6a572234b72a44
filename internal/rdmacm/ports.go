package rdmacm

import (
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/wire"
)

// portSpaces says which IDs have which ports. Ports of RDMA are independent of those of
// TCP and UDP. The rules are those of cma_check_port, cma_port_is_unique and
// cma_alloc_any_port.
type portSpaces struct {
	owners map[portKey][]*ID
	last   uint16 // the port chosen last, which is not chosen again at once
}

type portKey struct {
	space wire.PortSpace
	port  uint16
}

// Ports below reserved need CAP_NET_BIND_SERVICE. Unlike that of TCP, this number is
// fixed (cma_use_port: PROT_SOCK).
const reserved = 1024

func newPortSpaces() portSpaces { return portSpaces{owners: make(map[portKey][]*ID)} }

// take gives the ID the port of its source address, or chooses one if that is 0.
func (p *portSpaces) take(id *ID, space wire.PortSpace) error {
	if port := id.src.port(); port != 0 {
		if port < reserved && !id.owner.privileged() {
			return refuse(unix.EACCES, "port", "is below 1024", "choose another, or give the program CAP_NET_BIND_SERVICE")
		}
		key := portKey{space, port}
		if err := p.conflict(key, id, id.reuse); err != nil {
			return err
		}
		p.add(id, key)
		return nil
	}
	low, high := id.m.resolver.PortRange()
	n := uint32(high) - uint32(low) + 1
	offset := rand.Uint32N(n)
	for i := range n {
		key := portKey{space, uint16(uint32(low) + (offset+i)%n)}
		if key.port == p.last || !p.unique(key, id) {
			continue
		}
		p.last = key.port
		id.src = id.src.withPort(key.port)
		p.add(id, key)
		return nil
	}
	return refuse(unix.EADDRNOTAVAIL, "", "no port is free", "widen net.ipv4.ip_local_port_range, or destroy ids")
}

func (p *portSpaces) add(id *ID, key portKey) {
	id.port = key
	p.owners[key] = append(p.owners[key], id)
}

// give takes the port back from an ID that has one.
func (p *portSpaces) give(id *ID) {
	if id.port == (portKey{}) {
		return
	}
	rest := slices.DeleteFunc(p.owners[id.port], func(o *ID) bool { return o == id })
	if len(rest) == 0 {
		delete(p.owners, id.port)
	} else {
		p.owners[id.port] = rest
	}
	id.port = portKey{}
}

// conflict returns why an ID cannot have a port, or nil. reuse says whether the ID shares
// its port.
func (p *portSpaces) conflict(key portKey, id *ID, reuse bool) error {
	for _, o := range p.owners[key] {
		switch {
		case o == id, reuse && o.reuse, id.afOnly && o.afOnly && id.src.family() != o.src.family():
		case id.src.isAny() || o.src.isAny():
			return refuse(unix.EADDRNOTAVAIL, "port", "is another id's, and one of the two has no address", "choose another port")
		case id.src.same(&o.src):
			return refuse(unix.EADDRINUSE, "port", "is another id's, with the same address", "choose another port")
		}
	}
	return nil
}

// unique reports whether an ID with a chosen port differs from all others in an address
// or in the peer's port.
func (p *portSpaces) unique(key portKey, id *ID) bool {
	port := id.dst.port()
	for _, o := range p.owners[key] {
		switch theirs := o.dst.port(); {
		case o == id:
		case port != 0 && theirs != 0 && port != theirs:
		case !id.src.isAny() && !o.src.isAny() && !id.src.same(&o.src):
		case !id.dst.isAny() && !o.dst.isAny() && !id.dst.same(&o.dst):
		default:
			return false
		}
	}
	return true
}
