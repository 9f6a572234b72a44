package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
	"golang.org/x/sys/unix"
)

// Server has devices, and serves the connections that it was started for until ctx is done.
type Server interface {
	Run(ctx context.Context) error
	Status() *proto.Status
}

// Start makes a server with these devices (see Container.Devices). It takes connections from conns.
type Start func(devices []string, conns <-chan proto.Arrival) (Server, error)

// Serve is the daemon that startIn starts: args are those behind Stage. It returns when the first
// processes of all containers have ended, or when ctx is done.
func Serve(ctx context.Context, args []string, start Start) error {
	if len(args) < 4 {
		return errors.New("this is a part of gorxe-runtime and not a command")
	}
	for fd := controlFD; fd <= pidfdFD; fd++ {
		unix.CloseOnExec(fd)
	}
	beKillable()
	path := args[0]
	control, err := listener(os.NewFile(controlFD, path))
	if err != nil {
		return err
	}
	// The lock comes last: a daemon that starts then finds the UDP ports free.
	lock := os.NewFile(lockFD, path+" lock")
	defer lock.Close()
	defer os.Remove(path + proto.LockSuffix) //nolint:errcheck // a file that is left does no harm
	place := proto.Place{Namespace: args[1], Pod: args[2], Container: args[3]}
	p := newGroup(ctx, start, place)
	defer p.wait()
	defer control.Close() //nolint:errcheck // nothing is buffered in it
	defer os.Remove(path) //nolint:errcheck // the next daemon replaces what is left
	defer p.end()
	first := opened{listener: os.NewFile(listenerFD, "socket in a container"), pidfd: os.NewFile(pidfdFD, "pidfd")}
	if err := p.add(first, place, args[4:]); err != nil {
		return err
	}
	p.running.Go(func() { p.accept(control) })
	<-p.ctx.Done()
	return nil
}

// beKillable lets the kernel kill this daemon when memory is short. An engine excepts itself, and
// its children inherit that (proc(5): oom_score_adj); what programs make a daemon keep must not be
// excepted.
func beKillable() {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if score, convErr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && convErr == nil && score < 0 {
		_ = os.WriteFile(file, []byte("0"), 0) // raising it is always allowed
	}
}

// listener takes over a listening socket.
func listener(f *os.File) (*net.UnixListener, error) {
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	unixLn, ok := ln.(*net.UnixListener)
	if !ok || unixLn.Addr().Network() != "unixpacket" {
		ln.Close() //nolint:errcheck // an error follows anyway
		return nil, fmt.Errorf("%s is no socket of packets", f.Name())
	}
	// its path is one of another mount namespace, or Serve removes it
	unixLn.SetUnlinkOnClose(false)
	return unixLn, nil
}

// group has the containers of a network namespace.
type group struct {
	start   Start
	place   proto.Place     // of the first container
	ctx     context.Context // until the group ends
	end     context.CancelFunc
	running sync.WaitGroup
	// refusing has room for the connections that are told why there are no devices.
	refusing chan struct{}

	mu      sync.Mutex // below
	members []*member  // containers whose first process lives

	starting sync.Mutex // below
	server   *server    // nil: none
}

// member is a container.
type member struct{ place proto.Place }

// server is a Server that runs.
type server struct {
	Server
	conns chan proto.Arrival
	ended chan struct{}
}

func newGroup(ctx context.Context, start Start, place proto.Place) *group {
	g := &group{start: start, place: place, refusing: make(chan struct{}, maxRefusing)}
	g.ctx, g.end = context.WithCancel(ctx)
	return g
}

// wait returns when nothing of the group runs any more.
func (g *group) wait() { g.running.Wait() }

// errEnding: the last container has ended.
var errEnding = errors.New("the daemon is ending")

// add takes a container into the group, and its descriptors.
func (g *group) add(o opened, place proto.Place, devices []string) error {
	pidfd, err := pollable(o.pidfd)
	if err != nil {
		o.close()
		return err
	}
	ln, err := listener(o.listener)
	if err != nil {
		pidfd.Close()
		return err
	}
	m := &member{place}
	g.mu.Lock()
	ending := g.ctx.Err() != nil
	if !ending {
		g.members = append(g.members, m)
	}
	g.mu.Unlock()
	if ending {
		pidfd.Close()
		ln.Close() //nolint:errcheck // as in Serve
		return errEnding
	}
	forget := context.AfterFunc(g.ctx, func() { pidfd.Close() })
	g.running.Go(func() {
		awaitEnd(pidfd)
		if forget() {
			pidfd.Close()
		}
		ln.Close() //nolint:errcheck // as in Serve
		g.left(m)
	})
	g.running.Go(func() { g.serve(ln, place, devices) })
	return nil
}

// left counts a container out. The last one ends the group.
func (g *group) left(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.members, m)
	if g.members = slices.Delete(g.members, i, i+1); len(g.members) == 0 {
		g.end()
	}
}

// serve gives the server the connections that a container's programs make, until its socket closes.
func (g *group) serve(ln *net.UnixListener, place proto.Place, devices []string) {
	for {
		conn, err := ln.AcceptUnix()
		switch {
		case err == nil:
			g.deliver(proto.Arrival{Sock: conn, Place: place}, devices)
		case errors.Is(err, net.ErrClosed):
			return
		default: // for example out of descriptors
			select {
			case <-g.ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

const acceptPause = 100 * time.Millisecond

// maxRefusing bounds the connections that are told why there are no devices: each has a descriptor
// and a buffer for up to answerTimeout, and no user pays for it. Further ones are closed.
const maxRefusing = 64

// deliver gives the server a connection. The first one makes it start.
func (g *group) deliver(a proto.Arrival, devices []string) {
	s, err := g.started(devices)
	if err != nil {
		select {
		case g.refusing <- struct{}{}:
			g.running.Go(func() {
				g.refuse(&proto.Conn{Sock: a.Sock}, err)
				<-g.refusing
			})
		default:
			a.Sock.Close() //nolint:errcheck // nothing is buffered in it
		}
		return
	}
	select {
	case s.conns <- a:
	case <-s.ended:
		a.Sock.Close() //nolint:errcheck // nothing is buffered in it
	}
}

// started returns the server, and starts it if there is none. A server that could not start may do
// so later: the engine has given the namespace an address meanwhile, or a port is free.
func (g *group) started(devices []string) (*server, error) {
	g.starting.Lock()
	defer g.starting.Unlock()
	if g.server != nil {
		return g.server, nil
	}
	s := &server{conns: make(chan proto.Arrival), ended: make(chan struct{})}
	var err error
	if s.Server, err = g.start(devices, s.conns); err != nil {
		return nil, err
	}
	g.server = s
	g.running.Go(func() {
		s.Run(g.ctx) //nolint:errcheck // a private daemon has no log either
		close(s.ended)
		g.starting.Lock()
		defer g.starting.Unlock()
		g.server = nil
	})
	return s, nil
}

// refuse tells a client why there are no devices. The client sends something first.
func (g *group) refuse(conn *proto.Conn, err error) {
	defer conn.Close()
	defer context.AfterFunc(g.ctx, conn.Close)()
	fds, recvErr := conn.RecvWithin(new(proto.Request), answerTimeout)
	proto.CloseAll(fds)
	if recvErr == nil {
		conn.Send(proto.Reply{Version: proto.ProtocolVersion, Error: err.Error()}) //nolint:errcheck // it may be gone
	}
}

// accept takes further containers, which Join sends.
func (g *group) accept(control *net.UnixListener) {
	for {
		conn, err := control.AcceptUnix()
		switch {
		case err == nil:
			g.running.Go(func() { g.answer(&proto.Conn{Sock: conn}) })
		case g.ctx.Err() != nil, errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptPause)
		}
	}
}

// answer takes one container.
func (g *group) answer(conn *proto.Conn) {
	defer conn.Close()
	defer context.AfterFunc(g.ctx, conn.Close)()
	var q question
	fds, err := conn.RecvWithin(&q, answerTimeout)
	if err != nil {
		return
	}
	switch {
	case q.Version != proto.ProtocolVersion:
		err = proto.ErrVersion
	case q.Op == proto.OpStatus:
		proto.CloseAll(fds)
		g.tell(conn)
		return
	case len(fds) != 2:
		err = errors.New("a container needs a socket and a process")
	default:
		err = g.add(opened{listener: os.NewFile(uintptr(fds[0]), "socket in a container"), pidfd: os.NewFile(uintptr(fds[1]), "pidfd")}, q.Place, q.Devices)
		fds = nil
	}
	proto.CloseAll(fds)
	var a answer
	switch {
	case errors.Is(err, errEnding):
		a.Ending = true
	case err != nil:
		a.Error = err.Error()
	}
	conn.Send(a) //nolint:errcheck // a container whose Join is gone ends by itself
}

// tell says what the daemon has.
func (g *group) tell(conn *proto.Conn) {
	st := proto.PodStatus{Place: g.place}
	g.mu.Lock()
	for _, m := range g.members {
		st.Containers = append(st.Containers, m.place)
	}
	g.mu.Unlock()
	g.starting.Lock()
	s := g.server
	g.starting.Unlock()
	if s != nil {
		st.Status = s.Status()
	}
	if text, err := json.Marshal(st); err == nil {
		conn.SendText(text)
	}
}

// pollable lets Go's runtime wait for a pidfd.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := os.NewFile(uintptr(fd), f.Name())
	if err := p.SetReadDeadline(time.Time{}); err != nil { // the runtime cannot wait for it
		p.Close()
		return nil, fmt.Errorf("%s is no process: %w", f.Name(), err)
	}
	return p, nil
}

// awaitEnd returns when the process of a pidfd has ended, or when the file is closed.
func awaitEnd(pidfd *os.File) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return
	}
	raw.Read(func(fd uintptr) bool { //nolint:errcheck // it is closed
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
