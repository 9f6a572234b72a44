package umad

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/wire"
)

// Device is the device of one port.
type Device struct{ port *mad.Port }

// New makes the device of a port.
func New(port *mad.Port) *Device { return &Device{port} }

// maxAgents is how many agents a file may have (user_mad.c: IB_UMAD_MAX_AGENTS).
const maxAgents = 32

// What the budget bears: an agent, a datagram that waits for an answer, and one that waits to
// be read.
var (
	agentCost  = quota.Cost{Memory: 8 << 10}
	packetCost = quota.Cost{Memory: 1 << 10}
)

// A file has at most maxPending datagrams that wait for an answer, and maxQueued that the
// program has not read. Further requests are refused, and further datagrams dropped.
const (
	maxPending = 4096
	maxQueued  = 8192
)

// File is an open file of the device (user_mad.c: struct ib_umad_file).
type File struct {
	*eventfile.Level // one record for each datagram
	port             *mad.Port
	budget           *quota.Budget
	ready            func()

	// registering is held while an agent comes or goes.
	registering sync.Mutex
	// reading is held while a datagram is handed to the program.
	reading sync.Mutex

	mu      sync.Mutex // a leaf lock
	agents  [maxAgents]*mad.Agent
	used    bool // an agent was registered
	pkeys   bool // headers have a P_Key index
	queue   []*packet
	pending int // datagrams that wait for an answer
	dropped uint64
	removed bool // its device was; registering is held too when it changes
	closed  bool
}

// packet is a datagram with its header, which the program has written or will read. The
// datagram has all of its bytes, or if it is given back unanswered only its own header.
type packet struct {
	hdr  uapi.MADHdr
	mad  wire.MAD
	size int // of mad
}

var (
	_ kernel.PollFile = (*File)(nil)
	_ mad.Handler     = (*File)(nil)
)

// Open is one open("/dev/infiniband/umadN"). ENOMEM or EMFILE if the budget is spent.
func (d *Device) Open(budget *quota.Budget) (*File, error) {
	level, err := eventfile.NewLevel(budget, eventfile.ReadWrite)
	if err != nil {
		return nil, fmt.Errorf("umad: %w", err)
	}
	return &File{Level: level, port: d.port, budget: budget, ready: func() {}}, nil
}

// OnReady implements kernel.PollFile.
func (f *File) OnReady(ready func()) { f.ready = ready }

// Close ends the agents of the file, and with them what waits for an answer.
func (f *File) Close() {
	f.registering.Lock()
	defer f.registering.Unlock()
	f.mu.Lock()
	f.closed = true
	queue := f.queue
	f.queue = nil
	f.mu.Unlock()
	for range queue {
		f.budget.Give(packetCost)
	}
	f.endAgents()
	f.Level.Close()
}

// Remove takes the device away from the file (user_mad.c: ib_umad_kill_port). A program that
// waits for a datagram learns it: from now on, poll says that the file is readable, and read
// fails.
func (f *File) Remove() {
	f.registering.Lock()
	defer f.registering.Unlock()
	f.mu.Lock()
	if f.closed || f.removed {
		f.mu.Unlock()
		return
	}
	f.removed = true
	f.Add(1)
	f.ready()
	f.mu.Unlock()
	f.endAgents()
	f.Sync()
}

// endAgents ends all agents. f.registering is held.
func (f *File) endAgents() {
	f.mu.Lock()
	agents := f.agents
	f.agents = [maxAgents]*mad.Agent{}
	f.mu.Unlock()
	for _, a := range agents {
		if a != nil {
			f.unregister(a)
		}
	}
}

func (f *File) unregister(a *mad.Agent) {
	a.Unregister()
	f.budget.Give(agentCost)
}

// agent returns the agent with a number; nil if there is none.
func (f *File) agent(id uint32) *mad.Agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.agents[id]
}

// headerSize returns the size of the headers that the program writes and reads.
func (f *File) headerSize() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pkeys {
		return uapi.MADHdrSize
	}
	return uapi.MADHdrOldSize
}

// errSpent is the answer of calls if the budget is spent.
const errSpent = unix.ENOMEM
