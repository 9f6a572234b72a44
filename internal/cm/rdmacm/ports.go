package rdmacm

import (
	"math/bits"
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
	taken  map[wire.PortSpace]*portSet // the keys of owners, for a fast look at all of them
	last   uint16                      // the port chosen last, which is not chosen again at once

	// Each user has a share of the ports, or one would take all of them.
	uses map[portUse]int // how many IDs of a user have a port
	held map[any]int     // how many ports a user has
}

// portUse is a port of a user (Owner.user).
type portUse struct {
	user any
	key  portKey
}

// portShare is the part of the range of chosen ports that one user may have: one in portShare.
const portShare = 4

// sharedTries is how many ports are tried when none is free: an ID may share a port with IDs that
// have other destinations. Linux tries all of them. Manager.mu is locked meanwhile.
const sharedTries = 512

type portKey struct {
	space wire.PortSpace
	port  uint16
}

// Ports below reserved need CAP_NET_BIND_SERVICE. Unlike that of TCP, this number is
// fixed (cma_use_port: PROT_SOCK).
const reserved = 1024

func newPortSpaces() portSpaces {
	return portSpaces{
		owners: make(map[portKey][]*ID), taken: make(map[wire.PortSpace]*portSet),
		uses: make(map[portUse]int), held: make(map[any]int),
	}
}

// take gives the ID the port of its source address, or chooses one if that is 0.
func (p *portSpaces) take(id *ID, space wire.PortSpace) error {
	low, high := id.m.resolver.PortRange()
	port := id.src.port()
	if port != 0 && port < reserved && !id.owner.privileged() {
		return refuse(unix.EACCES, "port", "is below 1024", "choose another, or give the program CAP_NET_BIND_SERVICE")
	}
	if !p.mayTake(id.owner, portKey{space, port}, int(high)-int(low)+1) {
		return refuse(unix.EADDRNOTAVAIL, "", "the user has a quarter of the ports", "destroy ids, or widen net.ipv4.ip_local_port_range before the daemon starts")
	}
	if port != 0 {
		key := portKey{space, port}
		if err := p.conflict(key, id, id.reuse); err != nil {
			return err
		}
		p.add(id, key)
		return nil
	}
	key := portKey{space, p.choose(id, space, low, high)}
	if key.port == 0 {
		return refuse(unix.EADDRNOTAVAIL, "", "no port is free", "widen net.ipv4.ip_local_port_range, or destroy ids")
	}
	p.last = key.port
	id.src = id.src.withPort(key.port)
	p.add(id, key)
	return nil
}

// mayTake reports whether a user may have a port, besides those that it has. Without a budget
// there are no users who must share.
func (p *portSpaces) mayTake(o *Owner, key portKey, ports int) bool {
	return o.Budget == nil || p.held[o.user()] < max(1, ports/portShare) || p.uses[portUse{o.user(), key}] > 0
}

// choose returns a port that no ID has, or one that the ID may share; 0 if there is none.
func (p *portSpaces) choose(id *ID, space wire.PortSpace, low, high uint16) uint16 {
	n := uint32(high) - uint32(low) + 1
	start := rand.Uint32N(n)
	from := uint16(uint32(low) + start)
	for _, r := range [][2]uint16{{from, high}, {low, from}} {
		if port := p.taken[space].firstFree(r[0], r[1], p.last); port != 0 {
			return port
		}
	}
	for i := range min(n, sharedTries) {
		port := uint16(uint32(low) + (start+i)%n)
		if port != p.last && p.unique(portKey{space, port}, id) {
			return port
		}
	}
	return 0
}

func (p *portSpaces) add(id *ID, key portKey) {
	id.port = key
	p.owners[key] = append(p.owners[key], id)
	if p.taken[key.space] == nil {
		p.taken[key.space] = new(portSet)
	}
	p.taken[key.space].set(key.port, true)
	use := portUse{id.owner.user(), key}
	if p.uses[use]++; p.uses[use] == 1 {
		p.held[use.user]++
	}
}

// give takes the port back from an ID that has one.
func (p *portSpaces) give(id *ID) {
	if id.port == (portKey{}) {
		return
	}
	rest := slices.DeleteFunc(p.owners[id.port], func(o *ID) bool { return o == id })
	if len(rest) == 0 {
		delete(p.owners, id.port)
		p.taken[id.port.space].set(id.port.port, false)
	} else {
		p.owners[id.port] = rest
	}
	use := portUse{id.owner.user(), id.port}
	if p.uses[use]--; p.uses[use] == 0 {
		delete(p.uses, use)
		if p.held[use.user]--; p.held[use.user] == 0 {
			delete(p.held, use.user)
		}
	}
	id.port = portKey{}
}

// conflict returns why an ID cannot have a port, or nil. reuse says whether the ID shares
// its port.
func (p *portSpaces) conflict(key portKey, id *ID, reuse bool) error {
	for _, o := range p.owners[key] {
		switch {
		case o == id, reuse && o.reuse, id.afOnly && o.afOnly && id.src.family() != o.src.family():
		case id.wild() || o.wild(), id.src.isLoopback() && id.src.same(&o.src):
			// drivers/infiniband/core/cma.c:cma_any_addr has both
			return refuse(unix.EADDRNOTAVAIL, "port", "is another id's, and one of the two has no address or that loopback address", "choose another port")
		case id.src.same(&o.src):
			return refuse(unix.EADDRINUSE, "port", "is another id's, with the same address", "choose another port")
		}
	}
	return nil
}

// wild reports whether the ID's address stands for all devices. A loopback address does, unless a
// device has it (bindTo).
func (id *ID) wild() bool { return id.src.isZero() || id.src.isLoopback() && id.dev == nil }

// unique reports whether an ID with a chosen port differs from all others in an address
// or in the peer's port.
func (p *portSpaces) unique(key portKey, id *ID) bool {
	port := id.dst.port()
	for _, o := range p.owners[key] {
		switch theirs := o.dst.port(); {
		case o == id:
		case port != 0 && theirs != 0 && port != theirs:
		case !id.wild() && !o.wild() && !id.src.same(&o.src):
		case !id.dst.isAny() && !o.dst.isAny() && !id.dst.same(&o.dst):
		default:
			return false
		}
	}
	return true
}

// portSet is a set of ports.
type portSet [1 << 16 / 64]uint64

func (s *portSet) set(port uint16, in bool) {
	if bit := uint64(1) << (port % 64); in {
		s[port/64] |= bit
	} else {
		s[port/64] &^= bit
	}
}

// firstFree returns the first port of a range that is neither in the set nor without; 0 if there is
// none. Nil is the empty set.
func (s *portSet) firstFree(low, high, without uint16) uint16 {
	for at := uint32(low); at <= uint32(high); at = (at/64 + 1) * 64 {
		word := uint64(0)
		if s != nil {
			word = s[at/64]
		}
		if uint32(without)/64 == at/64 {
			word |= 1 << (without % 64)
		}
		word |= 1<<(at%64) - 1
		if port := at&^63 + uint32(bits.TrailingZeros64(^word)); ^word != 0 && port <= uint32(high) {
			return uint16(port)
		}
	}
	return 0
}
