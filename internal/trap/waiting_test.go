package trap

import (
	"bufio"
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/inflight"
	"golang.org/x/sys/unix"
)

// queueHost has a file /dev/infiniband/gorxe-test: a queue of numbers, which programs fill
// and empty by commands (testdata/waiting.c).
type queueHost struct {
	tree   *tree.Tree
	budget *quota.Budget
	socket bool // the descriptors are sockets, which poll never reports
	opens  atomic.Int32
	closes atomic.Int32
	held   chan struct{} // HOLD waits until it is closed
}

func newQueueHost() *queueHost {
	return &queueHost{
		tree:   tree.New(nil, tree.CharFile{Name: "gorxe-test", Major: 10, Minor: 250, Mode: 0o660}),
		budget: quota.New(quota.Cost{}),
	}
}

func (h *queueHost) Tree() *tree.Tree { return h.tree }

func (h *queueHost) Open(*tree.Node, Credentials) (File, error) {
	var e ends
	var err error
	if h.socket {
		e, err = newSocketEnds()
	} else {
		e, err = eventfile.NewLevel(h.budget, eventfile.ReadOnly)
	}
	if err != nil {
		return nil, err
	}
	h.opens.Add(1)
	return &queueFile{ends: e, host: h}, nil
}

// ends are the two ends of a queueFile: the program's descriptor, and the daemon's.
type ends interface {
	FD() int
	Poll() int
	HandedOver()
	Add(n int) // events for poll
	Sync()
	Close()
}

// socketEnds are the ends of a file that answers calls late, and that poll does not report.
type socketEnds struct {
	daemon int

	mu      sync.Mutex // a session that ends may close a file while a thread hands it over
	program int
}

func newSocketEnds() (*socketEnds, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &socketEnds{program: pair[0], daemon: pair[1]}, nil
}

func (e *socketEnds) FD() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.program
}

func (e *socketEnds) Poll() int { return e.daemon }
func (e *socketEnds) Add(int)   {}
func (e *socketEnds) Sync()     {}

func (e *socketEnds) HandedOver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.program >= 0 {
		unix.Close(e.program)
		e.program = -1
	}
}

func (e *socketEnds) Close() {
	e.HandedOver()
	unix.Close(e.daemon)
}

// allClosed waits until nothing of any file is left.
func (h *queueHost) allClosed(t testing.TB) {
	t.Helper()
	must.Eventually(t, "all files are closed", func() bool {
		return h.opens.Load() == h.closes.Load() && h.budget.Used() == quota.Cost{}
	})
}

// queueFile is an open file.
type queueFile struct {
	ends
	host  *queueHost
	ready func()

	mu    sync.Mutex
	queue []uint32
	waits uint32 // calls that found nothing
}

var _ kernel.PollFile = (*queueFile)(nil)

func (f *queueFile) OnReady(ready func()) { f.ready = ready }

func (f *queueFile) Close() {
	f.ends.Close()
	f.host.closes.Add(1)
}

func (f *queueFile) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

func (f *queueFile) Ioctl(kernel.Caller, uint32, uint64) (int64, error) { return 0, unix.ENOTTY }

func (f *queueFile) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	var cmd [16]byte
	if n != uint64(len(cmd)) {
		return 0, unix.EINVAL
	}
	if err := c.Read(buf, cmd[:]); err != nil {
		return 0, err
	}
	arg, addr := binary.NativeEndian.Uint32(cmd[4:]), binary.NativeEndian.Uint64(cmd[8:])
	put := func(v uint32) error { return c.Write(addr, binary.NativeEndian.AppendUint32(nil, v)) }
	switch binary.NativeEndian.Uint32(cmd[:]) {
	case 1: // POST
		f.mu.Lock()
		f.queue = append(f.queue, arg)
		f.Add(1)
		f.mu.Unlock()
		f.Sync()
		f.ready()
		return int64(n), nil
	case 2: // GET
		return f.get(c, int64(n), put)
	case 3: // WAITS
		f.mu.Lock()
		waits := f.waits
		f.mu.Unlock()
		return int64(n), put(waits)
	case 4: // OPEN
		return int64(n), put(uint32(f.host.opens.Load() - f.host.closes.Load()))
	case 5: // HOLD
		<-f.host.held
		return int64(n), nil
	case 6: // MISSED
		missed := uint32(0)
		if c.(kernel.Standing).Interrupted() {
			missed = 1
		}
		return int64(n), put(missed)
	default:
		return 0, unix.EINVAL
	}
}

// get gives the program a number. It is out of the queue meanwhile, and back in it if the
// program does not get it.
func (f *queueFile) get(c kernel.Caller, n int64, put func(uint32) error) (int64, error) {
	f.mu.Lock()
	if len(f.queue) == 0 {
		f.waits++
		f.mu.Unlock()
		return 0, kernel.ErrWait
	}
	v := f.queue[0]
	f.queue = f.queue[1:]
	f.Add(-1)
	f.mu.Unlock()
	f.Sync() // before the answer: after it, poll says what is left
	err := put(v)
	if err == nil {
		err = c.Deliver(n)
	}
	if err == nil {
		return n, nil
	}
	f.mu.Lock()
	f.queue = append([]uint32{v}, f.queue...)
	f.Add(1)
	f.mu.Unlock()
	f.Sync()
	f.ready()
	return 0, err
}

// TestWaiting runs the programs of testdata/waiting.c. What leaks here shows at the end of
// all tests.
func TestWaiting(t *testing.T) {
	exe := compile(t, "waiting")
	for _, tt := range []struct{ name, ulimit string }{
		{"poll", ""}, {"block", ""}, {"eintr", ""}, {"restart", ""}, {"shared", ""}, {"cancel", ""},
		{"nonblock", ""}, {"dup", ""}, {"fork", ""}, {"stat", ""}, {"many", "-n 1024"}, {"exec", ""},
		{"closed", ""}, {"storm", ""},
	} {
		t.Run(tt.name, func(t *testing.T) { testWaiting(t, newQueueHost(), exe, tt.name, tt.ulimit) })
	}
	for name, test := range map[string]func(*testing.T, string){
		"kill": testWaitingKill, "stop": testWaitingStop, "orphan": testWaitingOrphan,
	} {
		t.Run(name, func(t *testing.T) { test(t, exe) })
	}
}

// wantIdle checks that nothing of the session is left, in the shared page either.
func (p *underTrap) wantIdle() {
	p.t.Helper()
	must.Eventually(p.t, "the session has given up everything", func() bool { return p.session.users.Load() == 0 })
	w := &p.session.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) != 0 || w.running != 0 || w.looking {
		p.t.Errorf("%d calls wait, %d run, looking: %t", len(w.calls), w.running, w.looking)
	}
}

// TestWaitingSocket: calls on a descriptor that is a socket are answered late as well. The
// other programs of TestWaiting poll.
func TestWaitingSocket(t *testing.T) {
	exe := compile(t, "waiting")
	for _, name := range []string{"eintr", "restart", "shared", "cancel", "nonblock", "stat", "exec", "closed", "storm"} {
		t.Run(name, func(t *testing.T) {
			h := newQueueHost()
			h.socket = true
			testWaiting(t, h, exe, name, "")
		})
	}
}

func testWaiting(t *testing.T, h *queueHost, exe, name, ulimit string) {
	p := start(t, options{host: h, ulimit: ulimit}, exe, name)
	if !p.killable && name == "restart" {
		testenv.Missing(t, "Linux 5.19 is needed")
	}
	if out := p.wait(); out != "" {
		t.Error(out)
	}
	h.allClosed(t)
	p.wantIdle()
}

// TestMissed: a signal ends a call before anybody has received it, and Interrupted says so.
func TestMissed(t *testing.T) {
	h := newQueueHost()
	h.held = make(chan struct{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, options{host: h, stdout: w, patient: true}, compile(t, "waiting"), "missed")
	w.Close()
	out := bufio.NewReader(r)
	for _, want := range []string{"interrupted\n", "ok\n"} {
		if line, err := out.ReadString('\n'); line != want {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
		if want == "interrupted\n" {
			close(h.held)
		}
	}
	p.wait()
}

// testWaitingKill: a program that is killed while its threads wait leaves nothing.
func testWaitingKill(t *testing.T, exe string) {
	h := newQueueHost()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, options{host: h, stdout: w}, exe, "kill")
	w.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "waiting\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p.ended()
	h.allClosed(t)
	p.wantIdle()
}

// testWaitingStop: a session that stops answers the calls that wait.
func testWaitingStop(t *testing.T, exe string) {
	h := newQueueHost()
	calls, file, err := inflight.New()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, options{host: h, stdout: w, calls: calls}, exe, "orphan")
	w.Close()
	out := bufio.NewReader(r)
	if line, err := out.ReadString('\n'); line != "open\n" {
		t.Fatalf("%q, %v", line, err)
	}
	page, err := inflight.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Unmap()
	must.Eventually(t, "the call is in the page", func() bool { return len(page.Waiting()) == 1 })
	if n := len(page.Pollable()); n != 1 {
		t.Errorf("%d pollable files in the page", n)
	}
	p.stop()
	if err := <-p.served; err == nil {
		t.Error("Serve returned nil before the program ended")
	}
	if n := len(page.Waiting()) + len(page.Pollable()); n != 0 {
		t.Errorf("%d records left in the page", n)
	}
	h.allClosed(t)
	p.wantIdle()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// testWaitingOrphan: the process that serves is killed while a call waits. The keeper
// answers that call, and later ones.
func testWaitingOrphan(t *testing.T, exe string) {
	for range 5 {
		if got := orphaned(t, "serveQueue", options{}, doorbell.Auto, exe, "orphan"); got != "ok\n" {
			t.Errorf("%q", strings.TrimSpace(got))
		}
	}
}
