package eventfile

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/sys/fdid"
	"github.com/gorxe/gorxe/internal/test/must"
)

// reader is the program's end of an event pipe: a description of its own.
func reader(t testing.TB, p *Pipe) int {
	t.Helper()
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(p.FD()), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	p.HandedOver()
	return fd
}

// notifier sends records of 8 bytes, as a completion channel does.
type notifier struct{ *Pipe }

func newNotifier(budget *quota.Budget) (*notifier, error) {
	p, err := NewPipe(8, budget)
	return &notifier{p}, err
}

func (c *notifier) notify(handle uint64, key any) {
	e := Event{Key: key}
	binary.NativeEndian.PutUint64(e.Record[:], handle)
	c.Send(e)
}

func testChannel(t testing.TB) (*notifier, int) { return testChannelOf(t, quota.New(quota.Cost{})) }

func testChannelOf(t testing.TB, budget *quota.Budget) (*notifier, int) {
	t.Helper()
	c := must.Get[*notifier](t)(newNotifier(budget))
	t.Cleanup(c.Close)
	return c, reader(t, c.Pipe)
}

// next reads one event, which must be there.
func next(t testing.TB, fd int) uint64 {
	t.Helper()
	var b [8]byte
	if n, err := unix.Read(fd, b[:]); n != 8 || err != nil {
		t.Fatalf("read of an event: %d, %v", n, err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

func wantEmpty(t testing.TB, fd int) {
	t.Helper()
	var b [8]byte
	if n, err := unix.Read(fd, b[:]); err != unix.EAGAIN {
		t.Fatalf("read of no event: %d %v, %v", n, b, err)
	}
}

type objKey struct{ _ int }

func TestChannel(t *testing.T) {
	c, fd := testChannel(t)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if c.ID() != (fdid.FromStat(&st)) {
		t.Errorf("id %+v", c.ID())
	}
	x, y, z := new(objKey), new(objKey), new(objKey)
	c.notify(1, x)
	c.notify(2, y)
	if next(t, fd) != 1 || next(t, fd) != 2 {
		t.Error("wrong order")
	}
	wantEmpty(t, fd)
	for _, h := range []uint64{1, 2, 3, 1, 2, 1, 3} {
		c.notify(h, []*objKey{x, y, z}[h-1])
	}
	if next(t, fd) != 1 { // x: 2 of 4 read, with the one above
		t.Error("wrong order")
	}
	if n, unread := c.Forget(x); n != 2 || unread != 2 {
		t.Errorf("%d of x's events reported, 2 were read", n)
	}
	for _, want := range []uint64{2, 3, 2, 3} {
		if got := next(t, fd); got != want {
			t.Errorf("event of %d, want %d", got, want)
		}
	}
	wantEmpty(t, fd)
	for key, want := range map[any]uint32{x: 0, y: 3, z: 2, new(objKey): 0} {
		if n, _ := c.Forget(key); n != want {
			t.Errorf("%d reported, %d were read", n, want)
		}
	}
	// A new object at the same address starts from zero.
	c.notify(1, x)
	if n, _ := c.Forget(x); n != 0 {
		t.Errorf("%d reported, none was read", n)
	}
	wantEmpty(t, fd)
}

// fillPipe sends events about key until they have to wait.
func fillPipe(t testing.TB, c *notifier, key any) (sent int) {
	t.Helper()
	for {
		c.notify(1, key)
		sent++
		c.mu.Lock()
		full := !c.backlog.empty()
		c.mu.Unlock()
		if full {
			return sent
		}
	}
}

// TestChannelOverflow: a program that does not read costs one entry for each
// object, holds up nobody, and gets all of its events when it reads.
func TestChannelOverflow(t *testing.T) {
	c, fd := testChannel(t)
	x, y := new(objKey), new(objKey)
	sent := fillPipe(t, c, x)
	for range 100000 {
		c.notify(1, x)
		c.notify(2, y)
	}
	c.mu.Lock()
	if n := len(c.backlog.order); n != 2 {
		t.Errorf("%d entries for two objects", n)
	}
	c.mu.Unlock()
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	got := make(map[uint64]int)
	for range sent + 200000 {
		got[next(t, fd)]++
	}
	if got[1] != sent+100000 || got[2] != 100000 {
		t.Errorf("read %v of %d and %d", got, sent+100000, 100000)
	}
	if n, _ := c.Forget(x); n != uint32(sent+100000) {
		t.Errorf("%d reported of %d read", n, sent+100000)
	}
	c.notify(2, y)
	if next(t, fd) != 2 {
		t.Error("wrong event")
	}
}

// TestChannelForgetOverflow: events that wait are taken back as well.
func TestChannelForgetOverflow(t *testing.T) {
	c, fd := testChannel(t)
	x, y := new(objKey), new(objKey)
	c.notify(2, y)
	fillPipe(t, c, x)
	c.notify(1, x)
	c.notify(2, y)
	if next(t, fd) != 2 || next(t, fd) != 1 {
		t.Error("wrong order")
	}
	if n, _ := c.Forget(x); n != 1 {
		t.Errorf("%d reported, 1 was read", n)
	}
	if next(t, fd) != 2 {
		t.Error("wrong event")
	}
	wantEmpty(t, fd)
}

// TestChannelGone: the end of the reader is quiet, and seen.
func TestChannelGone(t *testing.T) {
	c := must.Get[*notifier](t)(newNotifier(quota.New(quota.Cost{})))
	if c.ReaderGone() {
		t.Fatal("gone before it was given away")
	}
	fd := must.Get[int](t)(unix.Dup(c.FD()))
	c.HandedOver()
	if c.ReaderGone() || c.FD() != -1 {
		t.Fatal("gone while the program has it")
	}
	x := new(objKey)
	fillPipe(t, c, x)
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if !c.ReaderGone() {
		t.Fatal("not gone")
	}
	for range 10 {
		c.notify(1, x)
	}
	c.Forget(x)
	c.Close()
	c.Close()
	c.notify(1, x)
	if n, _ := c.Forget(x); !c.ReaderGone() || n != 0 {
		t.Error("a closed channel is alive")
	}
}

// TestChannelTorn: a program that reads parts of events harms itself only.
func TestChannelTorn(t *testing.T) {
	c, fd := testChannel(t)
	x, y := new(objKey), new(objKey)
	c.notify(1, x)
	c.notify(2, y)
	c.notify(1, x)
	var b [3]byte
	if _, err := unix.Read(fd, b[:]); err != nil {
		t.Fatal(err)
	}
	c.Forget(x)
	var rest [64]byte
	n, err := unix.Read(fd, rest[:])
	if err != nil || !slices.Equal(rest[:n], []byte{0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("%v %v", rest[:n], err)
	}
}

// TestChannelForgery: a program that writes to its channel, as it can through
// /proc, harms itself only.
func TestChannelForgery(t *testing.T) {
	c, fd := testChannel(t)
	w, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	x := new(objKey)
	c.notify(1, x)
	for range 5 {
		if _, err := w.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := c.Forget(x); n != 0 {
		t.Errorf("%d reported, none was read", n)
	}
}

// TestChannelBusy: while one thread is blocked in the pipe, others leave their
// events and go on. Close does not wait either.
func TestChannelBusy(t *testing.T) {
	c, fd := testChannel(t)
	x := new(objKey)
	c.mu.Lock()
	c.enter() // as if in a system call that does not return
	c.notify(1, x)
	c.notify(2, x)
	wantEmpty(t, fd)
	c.leave()
	c.mu.Unlock()
	c.notify(3, x)
	for want := uint64(1); want <= 3; want++ {
		if got := next(t, fd); got != want {
			t.Errorf("event %d, want %d", got, want)
		}
	}
	c.mu.Lock()
	c.enter()
	w := c.w
	c.Close()
	if _, err := unix.FcntlInt(uintptr(w), unix.F_GETFD, 0); err != nil {
		t.Errorf("the end in use was closed: %v", err)
	}
	c.leave()
	c.mu.Unlock()
	must.Eventually(t, "the end is closed aside", func() bool {
		_, err := unix.FcntlInt(uintptr(w), unix.F_GETFD, 0)
		return errors.Is(err, unix.EBADF)
	})
}

func TestNotifyAllocs(t *testing.T) {
	c, fd := testChannel(t)
	x := new(objKey)
	var b [8]byte
	if n := testing.AllocsPerRun(1000, func() {
		c.notify(1, x)
		if _, err := unix.Read(fd, b[:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

func BenchmarkNotify(b *testing.B) {
	c, fd := testChannel(b)
	x := new(objKey)
	var buf [8]byte
	b.ReportAllocs()
	for range b.N {
		c.notify(1, x)
		if _, err := unix.Read(fd, buf[:]); err != nil {
			b.Fatal(err)
		}
	}
}
