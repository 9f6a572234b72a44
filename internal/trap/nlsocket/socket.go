package nlsocket

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/quota"
)

// Socket is a program's socket. It is a kernel.PollFile whose calls are not Read, Write and Ioctl:
// those of sockets have more arguments.
type Socket struct {
	*eventfile.Level
	typ    int
	budget *quota.Budget
	ready  func()

	mu       sync.Mutex // a leaf lock
	port     uint32     // 0: it has none yet
	groups   uint32
	options  map[option]int32
	timeouts map[option]time.Duration
	queue    [][]byte
	waits    int64 // bytes of queue, as the budget bears them
	closed   bool
}

// lastPort numbers the sockets whose program chose no port. The kernel takes such numbers, too,
// when the process already has a socket (af_netlink.c: netlink_autobind).
var lastPort atomic.Uint32

// firstPort is -4097 as a port (netlink/af_netlink.c: netlink_autobind).
const firstPort = ^uint32(4096)

// New makes a socket of a type as in socket(2): SOCK_RAW or SOCK_DGRAM, else ESOCKTNOSUPPORT
// (af_netlink.c: netlink_create).
func New(budget *quota.Budget, typ int) (*Socket, error) {
	if typ != unix.SOCK_RAW && typ != unix.SOCK_DGRAM {
		return nil, unix.ESOCKTNOSUPPORT
	}
	level, err := eventfile.NewLevel(budget, eventfile.ReadWrite)
	if err != nil {
		return nil, err
	}
	return &Socket{Level: level, typ: typ, budget: budget, ready: func() {}}, nil
}

// OnReady implements kernel.PollFile.
func (s *Socket) OnReady(ready func()) { s.ready = ready }

// Read implements kernel.File: see Receive.
func (s *Socket) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

// Write implements kernel.File: see Queue.
func (s *Socket) Write(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

// Ioctl implements kernel.File. A netlink socket has no commands of its own. Those of network
// interfaces, which every socket has, would be answered with the daemon's.
func (s *Socket) Ioctl(kernel.Caller, uint32, uint64) (int64, error) { return 0, unix.ENOTTY }

// Close implements kernel.File. What waits is dropped.
func (s *Socket) Close() {
	s.mu.Lock()
	s.closed = true
	s.queue = nil
	s.give(s.waits)
	s.mu.Unlock()
	s.Level.Close()
}

// Port returns the port of the socket. A socket without one gets one, as when it sends
// (af_netlink.c: netlink_sendmsg).
func (s *Socket) Port() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.port == 0 {
		s.port = firstPort - lastPort.Add(1)%ports
	}
	return s.port
}

// Address returns port and groups; 0 is none.
func (s *Socket) Address() (port, groups uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port, s.groups
}

// Bind gives the socket an address; port 0 leaves the choice to it. Others have the port of a
// socket that has one already: EINVAL (af_netlink.c: netlink_bind).
func (s *Socket) Bind(port, groups uint32) error {
	s.mu.Lock()
	if s.port != 0 && port != s.port && port != 0 {
		s.mu.Unlock()
		return unix.EINVAL
	}
	if s.port == 0 {
		s.port = port
	}
	s.groups = groups
	s.mu.Unlock()
	s.Port()
	return nil
}

func costOf(datagram []byte) int64 { return int64(cap(datagram)) + overhead }

// give gives back what datagrams cost; s.mu is held.
func (s *Socket) give(bytes int64) {
	s.waits -= bytes
	s.budget.Give(quota.Cost{Memory: bytes})
}

// Queue adds a datagram, which is the Socket's from then on. One that is not of a dump is lost if
// the socket has no room for it, as in the kernel. A dump may be longer. ENOBUFS means that the
// budget has no room for it, and that all which waits is lost. A call of Sync has to follow.
func (s *Socket) Queue(datagram []byte, ofDump bool) error {
	cost := costOf(datagram)
	// without the lock: it may wait for the close of this socket
	s.budget.MakeRoom(quota.Cost{Memory: cost})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !ofDump && s.full() {
		return nil
	}
	if s.budget.TakeNow(quota.Cost{Memory: cost}) != nil {
		s.Add(-len(s.queue))
		s.queue = nil
		s.give(s.waits)
		return unix.ENOBUFS
	}
	s.waits += cost
	s.queue = append(s.queue, datagram)
	s.Add(1)
	s.ready()
	return nil
}

// full reports whether more waits than the receive buffer holds; s.mu is held.
func (s *Socket) full() bool { return s.waits > int64(s.value(unix.SOL_SOCKET, unix.SO_RCVBUF)) }

// Dumping reports whether the program has to read more of a dump before it may ask for another one.
func (s *Socket) Dumping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full()
}

// Receive takes the oldest datagram, or looks at it if peek is set; kernel.ErrWait if there is
// none.
func (s *Socket) Receive(peek bool) ([]byte, error) {
	s.mu.Lock()
	if len(s.queue) == 0 {
		s.mu.Unlock()
		return nil, kernel.ErrWait
	}
	d := s.queue[0]
	if !peek {
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.give(costOf(d))
		s.Add(-1)
	}
	s.mu.Unlock()
	if !peek {
		s.Sync() // before the answer: after it, poll says what is left
	}
	return d, nil
}
