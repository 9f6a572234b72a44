package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/explain/work"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/sched"
	"github.com/gorxe/gorxe/internal/segment/joint"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/internal/trap/threads"
	"github.com/gorxe/gorxe/rocev2"
)

// Config says what to serve.
type Config struct {
	Devices []proto.Spec
	// Socket is the path to listen at. Inherited, if set, listens there already.
	Socket    string
	Inherited *net.UnixListener
	// Conns, if not nil, has the connections of programs. The daemon is that of the containers of a
	// network namespace (package pod): it ends with ctx, and makes no socket.
	Conns <-chan proto.Arrival
	// SocketMode and SocketGroup set which users may attach, beside the socket's owner. An
	// empty group changes nothing.
	SocketMode  fs.FileMode
	SocketGroup string
	// UserMemory is how many bytes of the daemon's memory the programs of one user
	// may take. 0 means a share of what there is (package tenant).
	UserMemory int64
	// Doorbells says which doorbells of programs are trapped.
	Doorbells proto.Doorbells
	// ECN is how the devices answer congestion.
	ECN proto.ECN
	// Segment is the directory where daemons meet whose Ethernet segments are joined; empty: it is
	// joined to none.
	Segment string
	// Capture is the pcapng file for the packets of all devices; empty: none.
	Capture string
	// CaptureMax bounds the capture of a verdict, in bytes, whose file is there and empty. 0: the
	// capture is not one of a verdict, and has no limit.
	CaptureMax uint64
	// Private marks a daemon that a `gorxe run` started for itself. It ends with its last program.
	Private bool
	Build   proto.Build  // zero: ThisBuild
	Log     *slog.Logger // nil: no log

	// For tests. Zero means the constants, and the root directory.
	textWait     time.Duration
	helloTimeout time.Duration
	maxListed    int
	root         fs.FS
}

// Server is a running daemon.
type Server struct {
	cfg     Config
	started time.Time
	log     *slog.Logger // within logs
	logs    logLimit
	sock    *socketFile
	tap     *rocev2.Tap
	live    live
	journal *work.Journal // of a verdict; nil: none
	devices []*device
	cm      *rdmacm.Manager // of all sessions: they share the network namespace's port spaces
	tree    *tree.Tree
	netlink netlinkDevices
	netns   atomic.Bool // netlink answers that it is exclusive

	cmNumbers atomic.Uint32 // of the ids that programs have made
	answer    func(*os.File, trap.ServeConfig) (answerer, error)

	closes   trap.Closes
	contents *sealed.Contents // of the tree's files
	threads  threads.Shared
	polling  *sched.Polling // of all sessions
	class    *sched.Class   // of all threads of devices and sessions
	tenants  *tenant.Tenants
	verbs    inject.Verbs
	fired    fault.Tally // by the rules of all sessions, also of those that have ended

	wg sync.WaitGroup // connections
	attached
}

// attached has the sessions and other connections of a daemon, and makes it end.
type attached struct {
	joint    *joint.Joint // other daemons; nil: the segment is joined to none
	joiner   *tenant.Tenant
	mu       sync.Mutex // below
	ending   bool       // takes no new sessions
	sessions map[*session]struct{}
	talks    int // connections about faults and reports, which keep a private daemon
	lastID   uint64
	held     []*os.File // see hold
	conclude func()     // makes Run return
	ended    chan struct{}
}

// Start opens the socket and then the devices. If two daemons start at once, the second one
// should fail because of the first, and not because of UDP ports.
func Start(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Build == (proto.Build{}) {
		cfg.Build = proto.ThisBuild()
	}
	s := &Server{
		cfg: cfg, started: time.Now(),
		answer:   newAnswerer,
		attached: attached{sessions: make(map[*session]struct{}), ended: make(chan struct{})},
	}
	s.conclude = sync.OnceFunc(func() { close(s.ended) })
	s.log = s.logs.logger(cfg.Log, nil)
	if err := s.open(); err != nil {
		if s.tap != nil {
			s.tap.Discard() //nolint:errcheck // err says what is wrong
			s.tap = nil
		}
		s.release() //nolint:errcheck // as above
		return nil, err
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if err := s.openSocket(); err != nil {
		return err
	}
	if s.cfg.Capture != "" {
		open := rocev2.OpenTap
		if s.cfg.CaptureMax != 0 {
			open = rocev2.OpenPreparedTap
		}
		if s.tap, err = open(s.cfg.Capture, "gorxe"); err != nil {
			return err
		}
		s.tap.Limit(s.cfg.CaptureMax)
		if s.cfg.CaptureMax != 0 {
			s.journal = work.New(time.Now)
		}
	}
	if err := librxe.RaiseLimits(); err != nil {
		return err
	}
	if s.cm, err = rdmacm.Open(s.log); err != nil {
		return err
	}
	ecn, err := proto.ParseECN(s.cfg.ECN)
	if err != nil {
		return err
	}
	s.class = sched.NewClass(procfs.Ready)
	readers := rocev2.NewThreads(maxReaderThreads, s.class)
	s.polling = sched.NewPolling(readers.Avoid)
	s.setFrameTap(s.tap)
	segments := &s.live.segments
	shared := common{
		ecn: &ecn, tap: s.tap, work: s.work(), threads: readers, class: s.class, segments: segments, segmentOf: s.segmentOf, log: s.log,
	}
	var devices []tree.Device
	s.cfg.Devices = slices.Clone(s.cfg.Devices)
	for i := range s.cfg.Devices {
		spec := &s.cfg.Devices[i]
		d, err := s.startDevice(spec, i, shared)
		if err != nil {
			return &proto.DeviceError{Device: *spec, Err: portTaken(err)}
		}
		s.devices = append(s.devices, d)
		devices = append(devices, d.sysfs())
		if err := d.joinCM(s.cm); err != nil {
			return fmt.Errorf("device %v: %w", *spec, err)
		}
	}
	s.tree = tree.New(devices, tree.RDMACM())
	s.netlink = newNetlinkDevices(s.devices, s.tree)
	s.contents = sealed.NewContents(contentsRoom(len(devices)))
	s.limitUsers()
	if err := s.join(segments); err != nil {
		return err
	}
	if s.tap != nil {
		return s.tap.Flush() // the capture begins now, also if no packet comes
	}
	return nil
}

// openSocket opens the socket, unless another owns it.
func (s *Server) openSocket() (err error) {
	switch {
	case s.cfg.Conns != nil:
		return nil
	case s.cfg.Inherited != nil:
		s.sock = &socketFile{UnixListener: s.cfg.Inherited, path: s.cfg.Socket}
	default:
		if s.sock, err = listen(s.cfg.Socket, s.cfg.SocketMode, s.cfg.SocketGroup); err != nil {
			return err
		}
	}
	s.sock.tidy = s.cfg.Private
	return nil
}

// maxReaderThreads bounds the threads that wait for packets. There may be many devices, with
// several addresses each.
const maxReaderThreads = 16

// SpareProcessors returns how many processors of Go a daemon needs beside the usual ones. A thread
// that waits in a system call keeps one until Go's monitor thread takes it away. A thread whose
// call ends needs one at once, or waits up to 10 ms. That is what two are for.
//
// A thread of the real-time class keeps its processor while it waits (sched.AwaitBriefly). There is
// room for one such thread for each processor of the machine.
func SpareProcessors() int { return 2 + runtime.NumCPU() }

// contentsRoom returns how many of the daemon's descriptors may be files of the tree.
func contentsRoom(devices int) int {
	const share, perDevice = 16, 64
	return max(1, min(perDevice*devices, tenant.OpenLimit()/share))
}

// limitUsers sets what users may take of what is left now.
func (s *Server) limitUsers() {
	root := s.cfg.root
	if root == nil {
		root = os.DirFS("/")
	}
	files := openFiles() + s.contents.Room()
	l := tenant.Find(tenant.Machine().Within(root), tenant.Process().Within(root), s.cfg.UserMemory, files)
	if s.cfg.Private { // its user is the only one
		l.User.Files = l.All.Files
	}
	owners := tenant.NewOwners(root)
	// the users of a container are no person's, also if it has a range of that person's ids
	if s.cfg.Conns != nil {
		owners = nil
	}
	s.tenants = tenant.New(l, owners)
	s.log.Info("a user's share of the daemon", "memory", l.User.Memory, "files", l.User.Files,
		"all_memory", l.All.Memory, "all_files", l.All.Files, "of", l.Memory.Bytes, "bound", l.Memory.Bound,
		"threads", l.User.Threads, "all_threads", l.All.Threads, "threads_bound", l.Threads.Bound)
}

// Run serves until ctx is done, or until a private daemon has ended. The keepers then serve
// programs that are still attached. It must be called once, and releases everything.
func (s *Server) Run(ctx context.Context) error {
	// Sessions do not end with ctx. A session that ends closes its files, and their queues lose
	// their memory, unless shutdown has removed the devices first.
	sessions, endSessions := context.WithCancel(context.WithoutCancel(ctx))
	defer endSessions()
	accepted := make(chan error, 1)
	go func() { accepted <- s.accept(ctx, sessions) }()
	var flush <-chan time.Time // nil without a capture, so that an idle daemon does not wake up
	if s.tap != nil {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		flush = ticker.C
	}
	losses := time.NewTicker(lossPeriod)
	defer losses.Stop()
	var err error
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-s.ended:
			running = false
		case err = <-accepted:
			accepted <- nil // for the receive below
			running = false
		case <-flush:
			s.flush()
		case <-losses.C:
			s.reportLosses()
		}
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	defer s.letGo()
	s.sock.withdraw()
	<-accepted
	if ctx.Err() == nil {
		s.settle()
	}
	return errors.Join(err, s.shutdown(endSessions))
}

// shutdownTimeout bounds the shutdown. A program's memory may never answer (a userfaultfd, a
// FUSE file), and the thread that reads it then never returns.
const shutdownTimeout = 5 * time.Second

// shutdown removes the devices from the programs and then ends the sessions. The programs
// see flushed queue pairs and IBV_EVENT_DEVICE_FATAL.
func (s *Server) shutdown(endSessions func()) error {
	ended := make(chan error, 1)
	go func() {
		for _, d := range s.devices {
			d.verbs.Close()
		}
		s.endLive()
		endSessions()
		s.wg.Wait()
		ended <- s.release()
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(shutdownTimeout):
		endSessions()
		return fmt.Errorf("a program's memory does not answer: the daemon ends without its sessions having ended")
	}
}

// flush writes the capture to its file. After a program has ended, or after the daemon was
// killed, the file must have the program's packets.
func (s *Server) flush() {
	if s.tap != nil {
		s.tap.Flush() //nolint:errcheck // Close reports it too
	}
}

// release closes what open opened.
func (s *Server) release() error {
	if s.sock != nil {
		defer s.sock.unlock()
		s.sock.withdraw()
	}
	var errs []error
	if s.cm != nil {
		s.cm.Close() // while the devices can still send
	}
	for _, d := range s.devices {
		if err := d.close(); err != nil {
			errs = append(errs, fmt.Errorf("device %v: %w", d.spec, err))
		}
	}
	s.part()
	if s.contents != nil {
		s.contents.Close()
	}
	if s.tap != nil {
		if err := s.tap.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// accept serves connections until the socket is closed, or, of a daemon without one, until ending
// is done.
func (s *Server) accept(ending, ctx context.Context) error {
	if s.sock == nil {
		for {
			select {
			case a := <-s.cfg.Conns:
				s.welcome(ctx, &proto.Conn{Sock: a.Sock}, a.Place)
			case <-ending.Done():
				return nil
			}
		}
	}
	for {
		sock, err := s.sock.AcceptUnix()
		switch {
		case err == nil:
			s.welcome(ctx, &proto.Conn{Sock: sock}, proto.Place{})
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			// For example out of descriptors, which other sessions will return.
			s.log.Error("cannot accept a connection", "error", err, "hint", hint(err))
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(100 * time.Millisecond):
			}
		default:
			return fmt.Errorf("socket %s: %w", s.cfg.Socket, err)
		}
	}
}

// isTemporary is net.Error's Temporary, for what accept(2) can say.
func isTemporary(err error) bool {
	for _, e := range temporary {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// hello describes the daemon.
func (s *Server) hello() *proto.Hello {
	return &proto.Hello{PID: os.Getpid(), Private: s.cfg.Private, Devices: s.cfg.Devices, Build: s.cfg.Build, Address: s.address()}
}
