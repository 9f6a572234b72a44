package trap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/sys/userfault"
	"github.com/gorxe/gorxe/internal/test/must"
)

const (
	lendSize   = 4096
	lendResult = 4242
)

// lent is what the device does with the faults of its program. Each write of the program is the
// next step, and names a page.
type lent struct {
	t       *testing.T
	step    int
	got     chan error
	handler *userfault.Handler
	stored  chan bool
}

func (l *lent) write(c kernel.Caller, buf, _ uint64) (int64, error) {
	var b [8]byte
	if err := c.Read(buf, b[:]); err != nil {
		return 0, err
	}
	page := userfault.Range{Start: binary.NativeEndian.Uint64(b[:]), Len: lendSize}
	l.step++
	switch l.step {
	case 1: // the call fails all the same
		status := procfs.Path(c.(*caller).r.thread(), "status")
		c.(kernel.Lender).LendFaults(func(fd int, err error) {
			if err == nil {
				l.handler, err = userfault.New(fd)
			}
			// a store of now would not wait yet
			if text, e := procfs.ReadFile(status); err == nil && !bytes.Contains(text, []byte("\nState:\tt ")) {
				err = fmt.Errorf("the program does not stand still: %v\n%s", e, text)
			}
			l.got <- err
		})
		return 0, unix.ENOTUNIQ
	case 2: // the next store waits until the device has seen it
		if err := errors.Join(<-l.got, l.handler.RegisterStores(page), l.handler.Protect(page)); err != nil {
			l.t.Error(err)
			return 0, unix.EIO
		}
		go l.serve(page)
	case 3:
		if !<-l.stored {
			return 0, unix.EIO
		}
		err := l.handler.Protect(page)
		l.handler.Close() // as the end of a daemon does: the next store waits for nobody
		return lendResult, err
	}
	return lendResult, nil
}

func (l *lent) serve(page userfault.Range) {
	// A signal may end the wait, or that of the program's thread, which then stores again.
	var addr uint64
	for ok := false; !ok; {
		if l.handler.Await(time.Hour) {
			addr, _, ok = l.handler.Next()
		}
	}
	good := page.Contains(addr)
	if !good {
		l.t.Errorf("a store at %#x; want one in %+v", addr, page)
	}
	must.OK(l.t, l.handler.Release(page))
	l.stored <- good
}

// TestLendFaults: a program lends its faults in a call of its own, of which it gets the result, and
// stands still until the device has them. Its store to a protected page waits for the device, and
// goes on when the device lets it or is gone.
func TestLendFaults(t *testing.T) {
	h := newFakes(t)
	l := &lent{t: t, got: make(chan error, 1), stored: make(chan bool, 1)}
	h.write = l.write
	run(t, options{program: "lend", host: h})
	if l.step != 3 {
		t.Errorf("the program came to step %d", l.step)
	}
}

// TestHungLenders: threads of a program hang while the daemon has each of them make a file. Each
// takes a thread of the daemon. The user has paid for it: there are no more than the user may have.
// They end with the program.
func TestHungLenders(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		return // no program lends its faults there
	}
	const threads = 3 // one takes the calls
	h := newFakes(t)
	var under atomic.Int32
	refused := make(chan struct{}, 1)
	h.write = func(c kernel.Caller, _, n uint64) (int64, error) {
		under.Add(1)
		c.(kernel.Lender).LendFaults(func(fd int, err error) {
			under.Add(-1)
			if errors.Is(err, unix.EAGAIN) {
				select {
				case refused <- struct{}{}:
				default:
				}
			}
			if err == nil {
				_ = unix.Close(fd) // it has nothing to write
			}
		})
		return int64(n), nil
	}
	p := start(t, options{host: h, budget: quota.New(quota.Cost{Threads: threads}), patient: true}, compile(t, "hung"), strconv.Itoa(2*threads))
	select {
	case <-refused:
	case <-time.After(must.Limit):
		t.Errorf("%d threads of the daemon hang", under.Load())
	}
	if n := under.Load(); n > threads { // with the one that is refused
		t.Errorf("%d threads of the daemon hang", n)
	}
	must.OK(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed
	p.ended()
	must.Eventually(t, "no thread of the daemon hangs", func() bool { return under.Load() == 0 })
}

// lend starts a program that lends its faults. The test, which traces that one, must not be its
// parent: a parent is told of the stops, too.
func lend([]string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleEnv+"=lend-child")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// lendChild stores to a page before, while and after the device has it protected.
func lendChild([]string) error {
	dev, err := unix.Open(device, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	file, err := unix.MemfdCreate("page", 0)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(file, lendSize); err != nil {
		return err
	}
	page, err := unix.Mmap(file, 0, lendSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	name := binary.NativeEndian.AppendUint64(nil, uint64(uintptr(unsafe.Pointer(&page[0]))))
	before := openFDs()
	if _, err := unix.Write(dev, name); err != unix.ENOTUNIQ {
		return fmt.Errorf("the call that lends faults: %v", err)
	}
	if now := openFDs(); len(now) != len(before) { // the second step waits for the descriptor
		return fmt.Errorf("descriptors before: %v\n now: %v", before, now)
	}
	for step := range byte(2) {
		if n, err := unix.Write(dev, name); n != lendResult || err != nil {
			return fmt.Errorf("step %d: %d, %v", step, n, err)
		}
		page[step] = 'a' + step
	}
	var b [2]byte
	if _, err := unix.Pread(file, b[:], 0); err != nil || string(b[:]) != "ab" {
		return fmt.Errorf("the file has %q, %v", b, err)
	}
	return nil
}
