package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/inject"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/ucma"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/trap"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/internal/trap/procmem"
	"github.com/gorxe/gorxe/rxe"
)

// helloTimeout is how long a client may take to send its first message.
const helloTimeout = 10 * time.Second

// temporary are errors of accept(2) that pass.
var temporary = []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.ECONNABORTED, unix.EINTR}

// session is a program that a keeper has attached.
type session struct {
	server        *Server
	conn          *proto.Conn
	cred          unix.Ucred // of the client
	tenant        *tenant.Tenant
	id            uint64
	since         time.Time
	command       []string
	wanted        proto.Wanted
	log           *slog.Logger
	asked         proto.Questions
	faults        *faultRules
	reports       reports
	chaos         *rxe.Chaos        // nil: none
	sanitizer     *sanitize.Session // nil: none
	sanitizerCost quota.Cost
	removed       removals
	over          bool        // its program has ended; Server.mu guards it
	place         proto.Place // of its container

	mu     sync.Mutex // below
	keeper int        // its process; 0 before it attached
	files  map[*file]struct{}
	mads   map[*madFile]struct{}
	// limited has the devices with the session's limits, once a program has opened them.
	limited map[*device]*rxe.Subdevice
	cm      *ucma.Device     // nil until a program opens it
	warned  map[int]struct{} // processes whose librxe is old
}

// welcome starts to serve a connection, unless its user has too many. It waits for nothing,
// and the accepting thread calls it: so the connections that are not charged to their users
// never use up the descriptors.
func (s *Server) welcome(ctx context.Context, conn *proto.Conn, place proto.Place) {
	cred, err := conn.Peer()
	if err != nil {
		s.log.Error("a client without credentials", "error", err)
		conn.Close()
		return
	}
	u, err := s.tenants.Greet(cred.Uid)
	if err != nil {
		refuse(conn, err)
		conn.Close()
		return
	}
	s.wg.Go(func() {
		defer u.Dismiss()
		s.connection(ctx, conn, cred, u, place)
	})
}

// connection serves one connection.
func (s *Server) connection(ctx context.Context, conn *proto.Conn, cred unix.Ucred, u *tenant.Tenant, place proto.Place) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var req proto.Request
	fds, err := conn.RecvWithin(&req, cmp.Or(s.cfg.helloTimeout, helloTimeout))
	proto.CloseAll(fds)
	switch {
	case err != nil:
		if !errors.Is(err, io.EOF) {
			s.log.Debug("malformed request from client", "uid", cred.Uid, "pid", cred.Pid, "error", err)
		}
	case req.Version != proto.ProtocolVersion:
		refuse(conn, proto.ErrVersion)
	case req.Op == proto.OpStatus:
		s.sendText(ctx, conn, u, func() any { return s.status(cred.Uid) })
	case req.Op == proto.OpSeen:
		s.sendText(ctx, conn, u, func() any { return s.tree.Seen() })
	case req.Op == proto.OpFaults:
		s.faultTalk(conn, cred, u, &req)
	case req.Op == proto.OpErrors:
		s.sendText(ctx, conn, u, func() any { return s.errorsOf(cred.Uid) })
	case req.Op == proto.OpRole:
		s.tellRole(conn, cred, &req)
	case req.Op == proto.OpReport:
		s.reportTalk(ctx, conn, cred.Uid, u, &req)
	case req.Op == proto.OpLive:
		s.liveTalk(conn, cred.Uid, u)
	case req.Op == proto.OpHello:
		n := &session{
			server: s, conn: conn, cred: cred, tenant: u, place: place, since: time.Now(), command: req.Command, wanted: req.Wanted,
			files: make(map[*file]struct{}), mads: make(map[*madFile]struct{}),
			limited: make(map[*device]*rxe.Subdevice), warned: make(map[int]struct{}),
			log:    s.logs.logger(s.cfg.Log, cred.Uid).With("uid", cred.Uid, "pid", cred.Pid),
			faults: newFaultRules(u.Budget, s.devices, &s.verbs, int(cred.Pid)),
		}
		n.faults.set.Bound(mostRules(s.owns(cred.Uid)))
		if label := req.Wanted.Label; label != "" {
			if err := fault.CheckLabel(label); err != nil {
				refuse(conn, err)
				return
			}
			n.faults.label = label
		}
		n.faults.set.CountIn(&s.fired)
		if seed := req.Wanted.Chaos; seed != 0 {
			n.chaos = rxe.NewChaos(seed)
		}
		if err := n.startSanitizer(); err != nil {
			refuse(conn, err)
			return
		}
		defer n.endSanitizer()
		n.run(ctx)
	default:
		refuse(conn, errors.New("unknown request "+req.Op))
	}
}

// refuse tells the client that a request failed. The daemon ignores whether it arrives.
func refuse(conn *proto.Conn, err error) {
	r := proto.Reply{Version: proto.ProtocolVersion, Error: err.Error()}
	switch {
	case errors.Is(err, proto.ErrEnding):
		r.Code = proto.CodeEnding
	case errors.Is(err, proto.ErrElsewhere):
		r.Code = proto.CodeElsewhere
	case errors.Is(err, proto.ErrLimit), errors.Is(err, tenant.ErrLimit):
		r.Code = proto.CodeLimit
	case errors.Is(err, proto.ErrCapture):
		r.Code = proto.CodeCapture
	}
	conn.Send(r) //nolint:errcheck // as above
}

// run serves the session until its keeper is gone and its program has ended.
func (n *session) run(ctx context.Context) {
	if ends, err := n.server.enter(n); err != nil {
		refuse(n.conn, n.server.named(err, n.cred.Uid))
		if ends {
			n.server.conclude()
		}
		return
	}
	defer n.server.leave(n)
	defer n.endRemovals()
	hello := n.server.hello()
	hello.Session, hello.Chaos, hello.Sanitize = n.id, n.wanted.Chaos, n.wanted.Sanitize
	if n.conn.Send(proto.Reply{Version: proto.ProtocolVersion, Hello: hello}) != nil {
		return
	}
	var served sync.WaitGroup
	attached := false
	for {
		var req proto.Request
		fds, err := n.conn.Recv(&req)
		if err != nil {
			break
		}
		switch {
		case req.Op == proto.OpAnswer:
			n.asked.Answer(req, fds)
		case req.Op == proto.OpAttach && !attached && req.NoAccess != "" && procmem.CheckAccess(req.Program) != nil:
			proto.CloseAll(fds)
			refuse(n.conn, errors.New(req.NoAccess))
		case req.Op == proto.OpAttach && !attached && len(fds) == 1:
			attached = true
			n.mu.Lock()
			n.keeper = req.PID
			n.mu.Unlock()
			served.Go(func() {
				n.attach(ctx, req, fds)
				n.server.flush()
				n.server.programEnded(n)
				if _, total := n.reports.log.Records(); total > 0 {
					n.conn.Send(proto.Reply{Version: proto.ProtocolVersion, Errors: total}) //nolint:errcheck // without a keeper there is no user to tell
				}
				n.conn.Close() // this tells the keeper that nothing is left
			})
		default:
			proto.CloseAll(fds)
			refuse(n.conn, errors.New("unexpected request "+req.Op))
		}
	}
	// A keeper that was killed leaves its programs behind. Its questions fail.
	n.asked.End()
	served.Wait()
}

// answerer answers the calls of a program: a trap.Session.
type answerer interface{ Serve(context.Context) error }

func newAnswerer(listener *os.File, cfg trap.ServeConfig) (answerer, error) {
	return trap.NewSession(listener, cfg)
}

// attach answers the calls of the program behind the listener fds[0] until it ends. The
// keeper learns that it is attached when that can be done.
func (n *session) attach(ctx context.Context, req proto.Request, fds []int) {
	listener := os.NewFile(uintptr(fds[0]), "listener")
	defer listener.Close()
	calls, file, err := inflight.New()
	if err != nil {
		n.cannotAttach(err)
		return
	}
	defer file.Close()
	program, err := n.server.answer(listener, trap.ServeConfig{
		Host:    n,
		Netlink: n,
		Keeper:  n,
		FDs:     filter.Range{Base: req.FDBase, Count: req.FDCount, Top: req.FDTop},
		Calls:   calls,
		Budget:  n.tenant.Budget,
		User:    &n.tenant.Threads,
		Closes:  &n.server.closes,
		Polling: n.server.polling,
		Class:   n.server.class,
		Threads: &n.server.threads,

		Contents: n.server.contents,
		Say:      n.say,
		Log:      n.log,

		Doorbells: n.doorbells(), DoorbellSize: librxe.DoorbellSize,
		Paced: n.sanitizer != nil, // a thread that is stopped shows where it posts
	})
	if err != nil {
		calls.Unmap()
		n.cannotAttach(err)
		return
	}
	n.conn.Send(proto.Reply{Version: proto.ProtocolVersion}, int(file.Fd())) //nolint:errcheck // Recv will say so
	n.log.Info("attached", "command", n.command)
	err = program.Serve(ctx)
	if err != nil && ctx.Err() == nil {
		n.log.Error("the session ended with an error", "error", err)
		return
	}
	n.log.Info("detached")
}

func (n *session) cannotAttach(err error) {
	n.log.Error("cannot attach a program", "error", err, "hint", hint(err))
	refuse(n.conn, fmt.Errorf("the daemon cannot attach the program: %w", err))
}

// doorbells returns the session's choice, or else the daemon's. A fault rule for post_send needs
// trapped doorbells.
func (n *session) doorbells() proto.Doorbells {
	wanted := n.wanted.Doorbells
	if wanted == doorbell.Auto {
		wanted = n.server.cfg.Doorbells
	}
	return n.faults.attached(wanted)
}

// Tree implements trap.Host.
func (n *session) Tree() *tree.Tree {
	if shown := n.removed.shown.Load(); shown != nil {
		return shown.tree
	}
	return n.server.tree
}

// Open implements trap.Host.
func (n *session) Open(node *tree.Node, who trap.Credentials) (trap.File, error) {
	if node.IsRDMACM() {
		return n.openCM(who)
	}
	for _, d := range n.server.devices {
		switch {
		case d.spec.Name != node.DeviceName, n.removed.lacks(d):
		case node.IsUMAD():
			return n.openMAD(d)
		default:
			return n.open(d, who)
		}
	}
	return nil, unix.ENODEV
}

func (n *session) open(d *device, who trap.Credentials) (trap.File, error) {
	faults := n.faults.ofFile(d.spec.Name, who.PID)
	if err := faults.Verb("open_device", nil); err != nil {
		var refusal *kernel.Refusal
		if errors.As(err, &refusal) {
			n.reports.of(who.PID, d.spec.Name).Refused("open_device", refusal.Errno, err)
			err = refusal.Errno
		}
		return nil, err
	}
	// Without the lock: files that are closed meanwhile, to make room, need it.
	verbs, err := n.openVerbs(d)
	if err != nil {
		n.log.Error("cannot open a device", "device", d.spec.Name, "error", err, "hint", hint(err))
		return nil, err
	}
	verbs.SetOwner(n.faults.set, d.faults.Works(n.faults.set, inject.Program{
		Process: faults.verb.Process,
		Kill:    newVictim(who.PID).kill,
		Fatal:   func() { n.fatal(d) },
		Remove:  func(back time.Duration, all bool) { n.removeFor(d, back, all) },
	}))
	verbs.SetFaults(faults)
	verbs.SetChaos(n.chaos)
	f := &file{File: verbs, session: n, device: d, who: who, reports: n.reports.of(who.PID, d.spec.Name)}
	f.reports.rules, f.reports.budget = d.faults, n.tenant.Budget
	verbs.SetReports(f.reports)
	n.watch(f, who)
	f.OnOverrun(f.warn)
	if !n.enter(f) {
		f.Close()
		return nil, unix.ENODEV
	}
	return f, nil
}

// enter adds an open device, unless the session has lost it meanwhile.
func (n *session) enter(f *file) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed.lacks(f.device) {
		return false
	}
	n.files[f] = struct{}{}
	return true
}

// openVerbs opens a device with the limits that the session's rules set.
func (n *session) openVerbs(d *device) (*uverbs.File, error) {
	sub, err := n.subdevice(d)
	if err != nil {
		return nil, err
	}
	return d.verbs.OpenAs(sub, n.tenant.Budget)
}

// subdevice returns the device as all programs of the session share it.
func (n *session) subdevice(d *device) (sub *rxe.Subdevice, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.removed.lacks(d) {
		return nil, unix.ENODEV
	}
	if sub = n.limited[d]; sub == nil {
		if sub, err = inject.Subdevice(d.engine.Device(), n.faults.set); err == nil {
			n.limited[d] = sub
		}
	}
	return sub, err
}

// hint returns a remedy for an error in the daemon itself.
func hint(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "raise the daemon's limit of open files (ulimit -H -n, LimitNOFILE)"
	case errors.Is(err, quota.ErrSpent):
		return "gorxe daemon --user-memory sets how much memory there is for a user"
	case errors.Is(err, quota.ErrTotalSpent):
		return "the machine or the daemon's control group (MemoryMax) needs more memory"
	}
	return ""
}

// openFiles are the files that are open now.
func (n *session) openFiles() []*file {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]*file, 0, len(n.files))
	for f := range n.files {
		list = append(list, f)
	}
	return list
}

// OpenMem implements trap.Keeper.
func (n *session) OpenMem(pidfd int) (int, error) {
	a := n.asked.Ask(n.conn, proto.Reply{Ask: proto.AskMem}, pidfd).Got(true)
	if a.Err == nil && !procmem.IsMem(a.FD) {
		n.log.Warn("the keeper's descriptor is not the memory of a process")
		unix.Close(a.FD)
		return -1, unix.EPERM
	}
	return a.FD, a.Err
}

// Stat implements trap.StatKeeper.
func (n *session) Stat(pidfd int, fd int32) (fdid.ID, error) {
	a := n.asked.Ask(n.conn, proto.Reply{Ask: proto.AskStat, FD: fd}, pidfd).Got(false)
	return a.ID, a.Err
}
