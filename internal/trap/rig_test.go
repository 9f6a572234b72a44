package trap

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/provider/librxe"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/clock"
	"github.com/gorxe/gorxe/internal/test/leak"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/filter"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// The test binary is three things: the tests; with roleEnv=launch, the child that
// installs the filter and executes its arguments; with another value, one of the
// programs of programs_test.go.
const roleEnv = "GORXE_TRAP_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		if os.Getenv(forbidEnv) != "" {
			if err := forbidProcessVM(); err != nil {
				panic(err)
			}
		}
		if n := os.Getenv(limitEnv); n != "" {
			if err := limitInotify(n); err != nil {
				panic(err)
			}
		}
		os.Exit(leakless(m))
	case "launch":
		fmt.Fprintln(os.Stderr, "launch:", launch(os.Args[1:]))
		os.Exit(125)
	default:
		os.Exit(runProgram(role, os.Args[1:]))
	}
}

// leakless runs the tests, after which there must be as many descriptors as before, and as many
// goroutines of gorxe.
func leakless(m *testing.M) int {
	if _, err := self(); err != nil { // the poller's descriptors exist from now on
		panic(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	r.Close()
	w.Close()
	go forkAll()
	const own = "gorxe/gorxe/"
	fds, routines := openFDs(), leak.Running(own)
	status := m.Run()
	if f := flag.Lookup("test.fuzz"); status != 0 || f != nil && f.Value.String() != "" {
		return status // fuzzing leaves its own things behind
	}
	for range 200 {
		if len(openFDs()) <= len(fds) && leak.Running(own) <= routines {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Printf("descriptors before: %v\n after: %v\n", fds, openFDs())
	stacks := make([]byte, 1<<20)
	fmt.Printf("%d goroutines, %d now:\n%s\n", routines, leak.Running(own), stacks[:runtime.Stack(stacks, true)])
	return 1
}

// forking has starts of programs. The kernel kills a program when the thread that started it ends
// (Pdeathsig), and the threads of a pool end. So one thread that does not end starts them all.
var forking = make(chan func())

func forkAll() {
	runtime.LockOSThread()
	for f := range forking {
		f()
	}
}

func startProgram(cmd *exec.Cmd) error {
	err := make(chan error)
	forking <- func() { err <- cmd.Start() }
	return <-err
}

// doorbellSize is that of the devices here.
const doorbellSize = librxe.DoorbellSize

// flushQueues is the fallback's, for the devices here.
func flushQueues(q fallback.Queues, _ fallback.Process) bool {
	_, _ = librxe.FlushOrphan(q)
	return false
}

// openFDs says what the descriptors of this process refer to.
func openFDs() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	var list []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			list = append(list, e.Name()+" "+to)
		}
	}
	return list
}

// launch is what gorxe run's child does.
func launch(argv []string) error {
	runtime.LockOSThread()
	conn := 3
	fds, err := filter.Own()
	if err != nil {
		return err
	}
	if dir := os.Getenv("GORXE_TRAP_CHROOT"); dir != "" {
		if err := unix.Chroot(dir); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	env := os.Environ()
	env = append(env[:0:0], env...)
	for i, e := range env {
		if strings.HasPrefix(e, roleEnv+"=") {
			env[i] = roleEnv + "=" + os.Getenv("GORXE_TRAP_PROGRAM")
		}
	}
	in, err := filter.Install(fds, doorbellSize)
	if err != nil {
		return err
	}
	msg := fmt.Appendf(nil, "%d %d %d %t", fds.Base, fds.Count, fds.Top, in.Killable)
	if err := unix.Sendmsg(conn, msg, unix.UnixRights(in.Listener), nil, 0); err != nil {
		return err
	}
	unix.Close(in.Listener)
	unix.Close(conn)
	return syscall.Exec(path, argv, env)
}

// fakeHost has devices whose packets go nowhere.
type fakeHost struct {
	tree *tree.Tree
	devs map[string]*uverbs.Device
	open func(name string, who Credentials) (File, error) // nil: devs

	reads  atomic.Uint64 // of its counter, and what that says
	mu     sync.Mutex
	opened []Credentials
}

type nowhere struct{}

func (nowhere) Send([]wire.Burst)     {}
func (nowhere) Join(wire.GID) error   { return nil }
func (nowhere) Leave(wire.GID) error  { return nil }
func (nowhere) Now() rxe.Time         { return rxe.Time(clock.Now()) }
func (nowhere) Arm(deadline rxe.Time) {}

func newHost(t testing.TB, names ...string) *fakeHost {
	t.Helper()
	h := &fakeHost{devs: make(map[string]*uverbs.Device)}
	gid := wire.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))
	var devs []tree.Device
	for i, name := range names {
		dev, err := rxe.New(rxe.Config{Name: name, Link: nowhere{}, Clock: nowhere{}, Seed: [32]byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dev.Close() })
		_ = dev.SetGIDs([]wire.GID{gid})
		_ = dev.SetPort(rxe.PortActive, 1024)
		if h.devs[name], err = uverbs.NewDevice(uverbs.Config{Device: dev, Driver: librxe.Driver{}, Index: i}); err != nil {
			t.Fatal(err)
		}
		devs = append(devs, tree.Device{
			Name: name, Index: i, NodeGUID: 0x0200_0000_0000_0001 + uint64(i), SysImageGUID: 1, NodeDesc: "rxe", Netdev: "lo",
			Parent: tree.Parent(librxe.Driver{}.Look(name, 0).Parent), ABI: librxe.Driver{}.ABI(),
			Port: func() tree.PortInfo {
				return tree.PortInfo{
					State: 4, PhysState: 5, LinkLayer: 2, ActiveWidth: 1, ActiveSpeed: 1,
					GIDTableLen: 16, GIDs: []wire.GID{gid}, PKeys: []uint16{0xffff},
				}
			},
			HWCounters: func() []tree.Counter {
				return []tree.Counter{{Name: "reads", Value: h.reads.Add(1)}}
			},
		})
	}
	h.tree = tree.New(devs)
	return h
}

func (h *fakeHost) Tree() *tree.Tree { return h.tree }

func (h *fakeHost) Open(n *tree.Node, who Credentials) (File, error) {
	h.mu.Lock()
	h.opened = append(h.opened, who)
	h.mu.Unlock()
	if h.open != nil {
		return h.open(n.DeviceName, who)
	}
	d := h.devs[n.DeviceName]
	if d == nil {
		return nil, unix.ENODEV
	}
	f, err := d.Open(nil)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// underTrap is a program that was started behind a listener.
type underTrap struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err bytes.Buffer
	listener *os.File
	budget   *quota.Budget // of the session, without devices
	fds      filter.Range
	killable bool
	session  *Session
	served   chan error
	stop     context.CancelFunc
}

// options change how start does it.
type options struct {
	program   string // role of the program: the test binary runs itself
	env       []string
	ulimit    string // arguments of that command
	chroot    string // of the program
	cred      *syscall.Credential
	host      Host
	netlink   Netlink
	keeper    Keeper
	calls     *inflight.Page
	budget    *quota.Budget
	idle      bool // do not serve
	doorbells doorbell.Mode
	paced     bool
	cpus      int  // of the machine; 0: as it is
	patient   bool // no receiver is replaced: the machine may be slow, memory is not
	oneRinger bool // all devices share a thread for direct doorbells
	restless  bool // receivers are sent away at once
	pipes     bool // for tellToRing: a pipe may replace the device's file
	stdin     *os.File
	stdout    *os.File
}

var self = sync.OnceValues(os.Executable)

// start runs argv behind a listener.
func start(t testing.TB, o options, argv ...string) *underTrap {
	t.Helper()
	exe, err := self()
	if err != nil {
		t.Fatal(err)
	}
	if o.program != "" {
		argv = append([]string{exe}, argv...)
	}
	ours, theirs := socketpair(t)
	defer ours.Close()
	p := &underTrap{t: t, served: make(chan error, 1), budget: quota.New(quota.Cost{})}
	if o.budget != nil {
		p.budget = o.budget
	}
	p.cmd = exec.Command(exe, argv...)
	if o.ulimit != "" {
		p.cmd = exec.Command("/bin/sh", append([]string{"-c", "ulimit " + o.ulimit + ` && exec "$0" "$@"`, exe}, argv...)...)
	}
	p.cmd.Env = append(append(os.Environ(), roleEnv+"=launch", "GORXE_TRAP_PROGRAM="+o.program,
		"GORXE_TRAP_CHROOT="+o.chroot), o.env...)
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if o.stdin != nil {
		p.cmd.Stdin = o.stdin
	}
	if o.stdout != nil {
		p.cmd.Stdout = o.stdout
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.cred, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = 10 * time.Second
	if err := startProgram(p.cmd); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	p.receive(ours)
	t.Cleanup(func() { p.listener.Close() })
	if o.host == nil {
		o.host = newHost(t, "rxe0")
	}
	if !o.idle {
		p.serve(o)
	}
	return p
}

func socketpair(t testing.TB) (ours, theirs *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
}

func (p *underTrap) receive(from *os.File) {
	p.t.Helper()
	var msg []byte
	p.listener, msg = p.receiveMessage(from)
	if _, err := fmt.Sscan(string(msg), &p.fds.Base, &p.fds.Count, &p.fds.Top, &p.killable); err != nil {
		p.t.Fatal(err)
	}
}

// receiveFile receives a listener alone.
func (p *underTrap) receiveFile(from *os.File) *os.File {
	p.t.Helper()
	f, _ := p.receiveMessage(from)
	return f
}

func (p *underTrap) receiveMessage(from *os.File) (listener *os.File, msg []byte) {
	p.t.Helper()
	var buf [64]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(from.Fd()), buf[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		_ = p.cmd.Wait()
		p.t.Fatalf("no listener (%v): %s", err, p.err.String())
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		p.t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "listener"), buf[:n]
}

func (p *underTrap) serve(o options) {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.t.Cleanup(stop)
	s, err := NewSession(p.listener, ServeConfig{
		Host: o.host, Netlink: o.netlink, Keeper: o.keeper, FDs: p.fds, DoorbellSize: doorbellSize, Calls: o.calls, Budget: p.budget, Doorbells: o.doorbells, Paced: o.paced,
		Log: slog.New(slog.NewTextHandler(testLog{p.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if o.cpus != 0 {
		s.cpus = o.cpus
	}
	if o.patient {
		s.receivers.callLimit = time.Hour
	}
	if o.restless {
		s.receivers.callLimit, s.receivers.idleLooks = 2*time.Millisecond, 1
	}
	if o.oneRinger {
		s.direct.most = 1
	}
	p.session = s
	go func() { p.served <- s.Serve(ctx) }()
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// wait waits for the program and the session to end, and returns what it wrote.
func (p *underTrap) wait() string {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v: %v\n%s%s", p.cmd.Args, err, p.out.String(), p.err.String())
	}
	p.ended()
	return p.out.String()
}

// ended waits for the session alone.
func (p *underTrap) ended() {
	p.t.Helper()
	select {
	case err := <-p.served:
		if err != nil {
			p.t.Errorf("Serve: %v", err)
		}
		// A thread of the budget closes pipes.
		must.Eventually(p.t, "the session has given back the user's budget", func() bool { return p.budget.Used() == quota.Cost{} })
	case <-time.After(must.Limit):
		p.t.Fatal("the session does not end although the program has")
	}
}

// run is start and wait.
func run(t testing.TB, o options, argv ...string) string {
	t.Helper()
	return start(t, o, argv...).wait()
}

// tool is the path of a program that has to be there; see scripts/setup.sh.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	testenv.Missing(t, "%s is missing: make setup installs it", name)
	return ""
}
