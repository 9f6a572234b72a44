package rocev2

import (
	"net/netip"
	"sync"

	"github.com/gorxe/gorxe/wire"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A receiving socket has one queue for all queue pairs. Without a filter, any host can fill it
// with packets that no queue pair takes, and the packets of connected ones find no room. So
// each socket has a classic BPF program, which the kernel runs before a packet takes room.
//
// GRO joins packets of one flow before the program runs, and the first of them decides about
// all. The mark of a number does not depend on whether its queue pair still exists. So a
// packet to one that is gone takes none with it, unless very many queue pairs went at once and
// numbers lost their mark.

// filter is what the port's sockets let pass.
type filter struct {
	port *Port

	mu      sync.Mutex // below
	mark    wire.QPNMark
	peers   map[netip.Addr]int
	key     addrKey
	sockets map[*receiver]struct{}
	refused bool // the kernel takes no filter
	thinning
}

func (f *filter) init(p *Port) {
	f.port, f.mark, f.key = p, p.cfg.Mark, newAddrKey()
	f.peers, f.sockets = make(map[netip.Addr]int), make(map[*receiver]struct{})
}

// on reports whether there is a filter at all.
func (f *filter) on() bool { return f.port.cfg.Mark.Bits != 0 }

// SetMark changes how many bits the mark of the numbers of queue pairs has.
func (p *Port) SetMark(m wire.QPNMark) {
	p.filter.change(func() bool {
		p.filter.mark = m
		return true
	})
}

// AddPeer lets packets of an address pass to connected queue pairs. Each call needs one call
// of RemovePeer.
func (p *Port) AddPeer(addr netip.Addr) {
	p.filter.change(func() bool {
		p.filter.peers[addr]++
		return p.filter.peers[addr] == 1
	})
}

// RemovePeer undoes one AddPeer.
func (p *Port) RemovePeer(addr netip.Addr) {
	p.filter.change(func() bool {
		p.filter.peers[addr]--
		if p.filter.peers[addr] > 0 {
			return false
		}
		delete(p.filter.peers, addr)
		return true
	})
}

// change gives all sockets a new program, if edit says so. It is in effect on return.
func (f *filter) change(edit func() bool) {
	if !f.on() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if edit() {
		for rx := range f.sockets {
			f.attachTo(rx)
		}
	}
}

// prepare gives a socket a program before it is bound.
func (f *filter) prepare(fd int, addr netip.Addr) {
	if f.on() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.attach(fd, addr)
	}
}

// join keeps a socket's program up to date from now on.
func (f *filter) join(rx *receiver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sockets[rx] = struct{}{}
	if f.on() {
		f.attachTo(rx)
	}
}

// leave ends what join began. The socket is still open.
func (f *filter) leave(rx *receiver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sockets, rx)
}

func (f *filter) attachTo(rx *receiver) {
	_ = rx.control(func(fd int) { f.attach(fd, rx.addr) }) // fails if it was closed
}

// attach gives a socket the program for the present state. If the kernel refuses it, packets
// of all addresses pass, or all packets: the program of before would drop what a new peer
// sends. The caller holds mu.
func (f *filter) attach(fd int, addr netip.Addr) {
	err := attachProgram(fd, f.program(addr, f.peers))
	if err == nil {
		return
	}
	// Both programs together may have been too much (net.core.optmem_max).
	tryInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if attachProgram(fd, f.program(addr, f.peers)) == nil || attachProgram(fd, f.program(addr, nil)) == nil {
		return
	}
	if !f.refused {
		f.refused = true
		f.port.log.Warn("the kernel refuses the packet filter: a flood from any host can fill the receive queue",
			"interface", f.port.at.Load().name, "reason", err)
	}
}

func attachProgram(fd int, prog []bpf.Instruction) error {
	assembled, err := bpf.Assemble(prog)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(assembled))
	for i, in := range assembled {
		raw[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]})
}

// Offsets in a packet: a UDP socket's program sees the UDP header first, and the IP header at
// bpfNetOff (linux/filter.h: SKF_NET_OFF).
const (
	bthQPNWord    = udpHeaderLen + 4 // its low 24 bits are the destination
	bpfNetOff     = 0xfff0_0000
	ipv4SrcOffset = bpfNetOff + 12
	ipv6SrcOffset = bpfNetOff + 8

	addrWord = 4 // an IPv6 address has four

	managementQPN = 1
	// passAll is more than any packet has. The program returns how many bytes stay
	// (linux/filter.h).
	passAll = 1 << 18
)

var (
	passPacket = bpf.RetConstant{Val: passAll}
	dropPacket = bpf.RetConstant{Val: 0}
)

// program returns the program of a socket that is bound to addr. Nil peers are all hosts. The
// caller holds mu.
func (f *filter) program(addr netip.Addr, peers map[netip.Addr]int) []bpf.Instruction {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: bthQPNWord, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: wire.QPNMask},
	}
	if addr.IsMulticast() {
		return append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(wire.MulticastQPN), SkipFalse: 1}, passPacket, dropPacket)
	}
	toManagement := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtRand},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 1<<f.thinned - 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1}, passPacket, dropPacket,
	}
	prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: managementQPN, SkipFalse: uint8(len(toManagement))})
	prog = append(prog, toManagement...)
	// wire.QPNMark.Of
	prog = append(prog,
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: f.mark.Mul[0]},
		bpf.TAX{},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: f.mark.MixShift()},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: f.mark.Mul[1]},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: f.mark.MarkShift()},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: f.mark.Datagrams(), SkipFalse: 1}, passPacket,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: f.mark.Unlisteds(), SkipFalse: 1}, passPacket,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, dropPacket,
	)
	return append(prog, f.key.passPeers(peers, addr.Is4())...)
}
