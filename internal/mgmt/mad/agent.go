package mad

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/mgmt/gsi"
	"github.com/gorxe/gorxe/internal/mgmt/sma"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Port is one port of a device.
type Port struct {
	mux *gsi.Mux
	sma *sma.Agent

	mu     sync.Mutex // a leaf lock
	agents map[uint32]*Agent
	slots  map[slot]*Agent
	last   uint32 // the number given last
}

// slot is what one agent is registered for. Vendor classes from 0x30 on have an
// organization, too.
type slot struct {
	class   wire.MADClass
	version uint8
	method  wire.MADMethod
	oui     [3]byte
}

// New makes the port whose queue pair 1 is mux, and whose queue pair 0 is agent.
func New(mux *gsi.Mux, agent *sma.Agent) *Port {
	p := &Port{mux: mux, sma: agent, agents: make(map[uint32]*Agent), slots: make(map[slot]*Agent)}
	mux.Offer(p)
	return p
}

// Methods is a set of methods: bit n of the words stands for method n.
type Methods [4]uint32

func (m *Methods) has(n wire.MADMethod) bool { return m[n/32]>>(n%32)&1 != 0 }

// maxMethods bounds the methods that an agent is registered for. Answers have the top bit.
const maxMethods = 128

// Registration says what an agent is for.
type Registration struct {
	QPN wire.QPN // 0 or 1
	// Class and Version are those of the datagrams that it receives; class 0: it receives
	// the answers to its own requests only. So does one without Methods.
	Class   wire.MADClass
	Version uint8
	Methods Methods
	OUI     [3]byte
	// RMPP is the version of the protocol for messages of several datagrams, or 0. With
	// UserRMPP the program handles it.
	RMPP     uint8
	UserRMPP bool
}

// Handler is the program behind an agent. The Port calls it with no lock held, and within
// calls of Agent.Send.
type Handler interface {
	// Received is called for each datagram that is for the agent. It must not block.
	Received(a *Agent, d *Datagram)
	// Ended is called once for each Send with a timeout that returned nil. context is what
	// Send got; timedOut: the datagram was not answered.
	Ended(a *Agent, context any, timedOut bool)
}

// Datagram is a received datagram.
type Datagram struct {
	MAD wire.MAD
	// Remote: it came over the wire from queue pair Src at the address From. Others are of
	// this port.
	Remote bool
	From   rxe.AHAttr
	Src    wire.QPN
}

// Agent is a registered agent.
type Agent struct {
	port    *Port
	reg     Registration
	handler Handler
	number  uint32 // in the upper half of the transaction identifiers

	// Port.mu guards these.
	gone    bool
	pending map[key]*transaction
	origins origins
}

// maxNumber is the largest number of an agent: drivers use the upper bits (mad.c:
// ib_mad_client_table).
const maxNumber = 1<<24 - 1

// Classes and versions (mad_priv.h: MAX_MGMT_CLASS, MAX_MGMT_VERSION; ib_mad.h).
const (
	maxClass      wire.MADClass = 80
	maxVersion                  = 0x83
	vendorFirst   wire.MADClass = 0x30
	vendorLast    wire.MADClass = 0x4f
	rmppVersion                 = 1
	cmVersion                   = 2
	classDevMgmt  wire.MADClass = 0x06
	classDevAdmin wire.MADClass = 0x10
	classBIS      wire.MADClass = 0x12
	classBoards   wire.MADClass = 0x05
)

// hasOUI reports whether datagrams of the class name an organization.
func hasOUI(c wire.MADClass) bool { return c >= vendorFirst && c <= vendorLast }

// hasRMPP reports whether messages of the class may have several datagrams (mad.c:
// ib_is_mad_class_rmpp).
func hasRMPP(c wire.MADClass) bool {
	switch c {
	case wire.MADClassSubnetAdmin, classDevMgmt, classDevAdmin, classBIS:
		return true
	default:
		return hasOUI(c)
	}
}

func isSubnet(c wire.MADClass) bool {
	return c == wire.MADClassSubnetLID || c == wire.MADClassSubnetDirected
}

// check refuses a registration as Linux does (mad.c: ib_register_mad_agent).
func (r *Registration) check() error {
	subnet := r.QPN == wire.SMIQPN
	switch {
	case r.RMPP != 0 && r.RMPP != rmppVersion:
		return unix.EINVAL
	case r.Class == 0:
		if r.UserRMPP {
			return unix.EINVAL
		}
		return nil
	case r.Version >= maxVersion,
		r.Class >= maxClass && r.Class != wire.MADClassSubnetDirected,
		hasOUI(r.Class) && r.OUI == [3]byte{},
		!hasRMPP(r.Class) && r.RMPP != 0,
		subnet != isSubnet(r.Class):
		return unix.EINVAL
	}
	return nil
}

// slots returns what the agent is registered for.
func (r *Registration) slots() (list []slot) {
	if r.Class == 0 {
		return nil
	}
	for n := range wire.MADMethod(maxMethods) {
		if r.Methods.has(n) {
			s := slot{class: r.Class, version: r.Version, method: n}
			if hasOUI(r.Class) {
				s.oui = r.OUI
			}
			list = append(list, s)
		}
	}
	return list
}

// kernels reports whether the kernel has an agent for a slot: its connection manager.
func (s slot) kernels() bool {
	return s.class == wire.MADClassCM && s.version == cmVersion && s.method == wire.MADSend
}

// Register makes an agent. EINVAL: the registration contradicts itself, or another agent is
// registered for one of its methods.
func (p *Port) Register(r Registration, h Handler) (*Agent, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	a := &Agent{port: p, reg: r, handler: h, pending: make(map[key]*transaction)}
	slots := r.slots()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range slots {
		if s.kernels() || p.slots[s] != nil {
			return nil, unix.EINVAL
		}
	}
	for _, s := range slots {
		p.slots[s] = a
	}
	for {
		p.last = p.last%maxNumber + 1
		if p.agents[p.last] == nil {
			break
		}
	}
	a.number = p.last
	p.agents[a.number] = a
	return a, nil
}

// Unregister ends the agent. What it has sent ends without an answer. A call of the Handler
// that is under way may end after Unregister returns.
func (a *Agent) Unregister() {
	p := a.port
	p.mu.Lock()
	if a.gone {
		p.mu.Unlock()
		return
	}
	a.gone = true
	delete(p.agents, a.number)
	for _, s := range a.reg.slots() {
		delete(p.slots, s)
	}
	var ended []*transaction
	for k, t := range a.pending {
		delete(a.pending, k)
		t.stop()
		ended = append(ended, t)
	}
	p.mu.Unlock()
	for _, t := range ended {
		a.handler.Ended(a, t.context, false)
	}
}

// Agents returns how many agents are registered.
func (p *Port) Agents() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.agents)
}
