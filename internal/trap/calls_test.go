package trap

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
	"github.com/gorxe/gorxe/internal/trap/fallback"
	"github.com/gorxe/gorxe/internal/trap/sealed"
	"github.com/gorxe/gorxe/rxe"
)

// fakeFile is an open device whose calls the test answers.
type fakeFile struct {
	fd     int
	write  func(c kernel.Caller, buf, n uint64) (int64, error)
	closed chan struct{}
	rung   atomic.Int32
}

func (f *fakeFile) FD() int { return f.fd }

func (f *fakeFile) DoorbellOffset() int64               { return 4096 }
func (f *fakeFile) Mappings() (uint64, bool)            { return 0, false }
func (f *fakeFile) TakeDoorbells(bool) kernel.Doorbells { f.rung.Add(1); return kernel.Doorbells{} }
func (f *fakeFile) Sweep()                              {}
func (f *fakeFile) Belled(kernel.DoorbellKind)          {}

func (f *fakeFile) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

func (f *fakeFile) Ioctl(kernel.Caller, uint32, uint64) (int64, error) { return 0, unix.ENOTTY }

func (f *fakeFile) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	if f.write != nil {
		return f.write(c, buf, n)
	}
	var b [64]byte
	if n > uint64(len(b)) {
		return 0, unix.EINVAL
	}
	return int64(n), c.Read(buf, b[:n])
}

func (f *fakeFile) Close() {
	unix.Close(f.fd)
	close(f.closed)
}

// fakes is a host whose devices are fakeFiles.
type fakes struct {
	*fakeHost
	write  func(c kernel.Caller, buf, n uint64) (int64, error)
	opens  atomic.Int32
	closes atomic.Int32
	rings  atomic.Int32
}

func newFakes(t testing.TB) *fakes {
	h := &fakes{fakeHost: newHost(t, "rxe0")}
	h.open = func(string, Credentials) (File, error) {
		fd, err := sealed.FixedSize("gorxe-test", 1<<20)
		if err != nil {
			return nil, err
		}
		f := &fakeFile{fd: fd, closed: make(chan struct{})}
		f.write = func(c kernel.Caller, buf, n uint64) (int64, error) {
			h.rings.Add(1)
			if h.write != nil {
				return h.write(c, buf, n)
			}
			var b [64]byte
			return int64(n), c.Read(buf, b[:min(n, uint64(len(b)))])
		}
		h.opens.Add(1)
		go func() {
			<-f.closed
			h.closes.Add(1)
		}()
		return f, nil
	}
	return h
}

// allClosed waits for all files to be closed.
func (h *fakes) allClosed(t testing.TB) {
	t.Helper()
	must.Eventually(t, "all files are closed", func() bool { return h.opens.Load() == h.closes.Load() })
}

func TestFiles(t *testing.T) { run(t, options{program: "files"}) }

func TestDescriptors(t *testing.T) {
	h := newFakes(t)
	p := start(t, options{program: "fds", host: h, ulimit: "-n 1024"})
	out := p.wait()
	h.allClosed(t)
	// one is null's
	if want := fmt.Sprintf("opened %d\n", p.fds.Devices().Count+p.fds.Pollable().Count-1); out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestLowLimit(t *testing.T) {
	h := newFakes(t)
	p := start(t, options{program: "fds", host: h, ulimit: "-n 256"})
	if p.fds.Base != 192 || p.fds.Count != 64 {
		t.Errorf("range %v", p.fds)
	}
	p.wait()
	h.allClosed(t)
}

func TestSignals(t *testing.T) {
	const n = 3000
	h := newFakes(t)
	p := start(t, options{program: "signals", host: h}, fmt.Sprint(n))
	if !p.killable {
		testenv.Missing(t, "Linux 5.19 is needed")
	}
	p.wait()
	if got := h.rings.Load(); got != n {
		t.Errorf("%d calls, %d seen", n, got)
	}
}

func TestThreads(t *testing.T) {
	h := newFakes(t)
	run(t, options{program: "threads", host: h})
	h.allClosed(t)
	if got := h.rings.Load(); got != 400 {
		t.Errorf("%d writes of 400", got)
	}
}

func TestForks(t *testing.T) {
	h := newFakes(t)
	run(t, options{program: "forks", host: h})
	h.allClosed(t)
	if opens, rings := h.opens.Load(), h.rings.Load(); opens != 1 || rings != 3 {
		t.Errorf("%d files, %d writes", opens, rings)
	}
}

func TestNested(t *testing.T) { run(t, options{program: "nested"}) }

// TestKill: a program that is killed closes its files.
func TestKill(t *testing.T) {
	h := newFakes(t)
	p := start(t, options{program: "hold", host: h, stdin: endless(t)})
	h.opened1(t)
	if list := waitProcesses(p); len(list) != 1 || list[0].PID != p.cmd.Process.Pid {
		t.Errorf("processes: %v", list)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.allClosed(t)
	_ = p.cmd.Wait()
	p.ended()
}

// TestKillAnyMoment: wherever a program is when it is killed, nothing of it stays.
// What leaks in this process shows at the end of all tests.
func TestKillAnyMoment(t *testing.T) {
	for i := range 25 {
		h := newFakes(t)
		p := start(t, options{program: "storm", host: h})
		must.Eventually(t, "the program is busy", func() bool { return h.rings.Load() > int32(i*17) })
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.ended()
		h.allClosed(t)
	}
}

func waitProcesses(p *underTrap) []ProcessStatus { return p.session.Processes() }

// opened1 waits for the first open.
func (h *fakes) opened1(t testing.TB) {
	t.Helper()
	must.Eventually(t, "the device is opened", func() bool { return h.opens.Load() > 0 })
}

// endless is a standard input that never says anything.
func endless(t testing.TB) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

// TestStop: when the session is told to stop, files are closed and the program
// stays; the keeper answers then.
func TestStop(t *testing.T) {
	h := newFakes(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, options{program: "hold", host: h, stdin: r})
	h.opened1(t)
	p.stop()
	if err := <-p.served; err == nil {
		t.Error("Serve returned nil before the program ended")
	}
	h.allClosed(t)
	fell := make(chan error, 1)
	go func() { fell <- fallback.Serve(p.listener, nil, p.fds, flushQueues) }()
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, p.err.String())
	}
	if err := <-fell; err != nil {
		t.Errorf("fallback.Serve: %v", err)
	}
}

// TestStopIdle: a program that makes no call does not hold up the end either.
func TestStopIdle(t *testing.T) {
	for range 10 {
		h := newFakes(t)
		p := start(t, options{host: h}, "/bin/sleep", "1000")
		must.Eventually(t, "the program runs", func() bool {
			b, _ := os.ReadFile(procfs.Path(p.cmd.Process.Pid, "wchan"))
			return strings.Contains(string(b), "nanosleep")
		})
		p.stop()
		select {
		case err := <-p.served:
			if err == nil {
				t.Error("Serve returned nil before the program ended")
			}
		case <-time.After(must.Limit):
			t.Fatal("Serve does not return")
		}
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// TestStall: calls on memory that never answers hold up nobody but themselves.
func TestStall(t *testing.T) {
	for _, tt := range []struct{ program, want string }{
		{"stall", "write: <nil>\n"},
		{"stalls", "write: input/output error\n"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			h := newFakes(t)
			p := start(t, options{program: tt.program, host: h})
			out := p.wait()
			if strings.HasPrefix(out, "skip:") {
				t.Skip(out)
			}
			if out != tt.want {
				t.Errorf("%q, want %q", out, tt.want)
			}
			h.allClosed(t)
			must.Eventually(t, "blocked receivers have ended", func() bool { return p.session.users.Load() == 0 })
		})
	}
}

// TestInnocentDoorbell: a doorbell that another program's memory blocks returns to its
// program.
func TestInnocentDoorbell(t *testing.T) {
	h := newFakes(t)
	release := make(chan struct{})
	h.write = func(c kernel.Caller, buf, n uint64) (int64, error) {
		b := make([]byte, n)
		if err := c.Read(buf, b); err != nil {
			return 0, err
		}
		c.Answer(int64(n))
		<-release
		return int64(n), nil
	}
	p := start(t, options{program: "doorbell", host: h})
	out := p.wait()
	if out != "wrote 32 <nil>\n" {
		t.Errorf("%q", out)
	}
	close(release)
	h.allClosed(t)
	must.Eventually(t, "the blocked receiver has ended", func() bool { return p.session.users.Load() == 0 })
}

// TestExec: writes go on while the program becomes another, and none lands in it.
func TestExec(t *testing.T) {
	h := newFakes(t)
	var writers sync.WaitGroup
	var landed, refused atomic.Int64
	spaces := make(map[kernel.Space]bool)
	h.write = func(c kernel.Caller, _, n uint64) (int64, error) {
		s, err := c.Space()
		if err != nil {
			return 0, err
		}
		if spaces[s] {
			return 0, unix.EEXIST // each life has an address space of its own
		}
		spaces[s] = true
		for _, size := range []int{8, canarySize} {
			span := []rxe.Span{{VA: canaryAddr, Buf: bytes.Repeat([]byte{0xee}, size)}}
			writers.Go(func() {
				for s.WriteV(span) == nil {
					landed.Add(1)
				}
				// Not a word more when it is gone.
				if s.WriteV(span) == nil {
					t.Error("a space came back")
				}
				refused.Add(1)
			})
		}
		return int64(n), nil
	}
	p := start(t, options{program: "exec", host: h}, "15")
	p.wait()
	writers.Wait()
	h.allClosed(t)
	if landed.Load() == 0 || refused.Load() != 32 {
		t.Errorf("%d writes, %d writers ended", landed.Load(), refused.Load())
	}
}

// TestStopUnanswered: a file that cannot be closed does not hold up the end of
// the session for ever.
func TestStopUnanswered(t *testing.T) {
	var g sync.WaitGroup
	g.Add(1)
	if waitFor(&g, time.Millisecond) {
		t.Error("did not wait")
	}
	g.Done()
	if !waitFor(&g, 20*time.Second) {
		t.Error("waited for nothing")
	}
}
