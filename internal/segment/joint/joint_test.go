package joint

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/segment"
	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/internal/sys/mmsg"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rxe"
)

// host is a segment with one station that hears everything, joined or not.
type host struct {
	*segment.Station
	on    segment.Segment
	joint *Joint
	payer *quota.Budget
	log   bytes.Buffer
	got   chan []byte
	slow  atomic.Bool
}

func (h *host) ReceiveFrame(b []byte, _ rxe.FrameInfo) {
	if h.slow.Load() {
		time.Sleep(time.Millisecond)
	}
	select {
	case h.got <- bytes.Clone(b):
	default:
	}
}

// payerRoom is enough for maxLinks.
const payerRoom = 1 << 30

func newHost(t *testing.T, dir string, last byte) *host {
	t.Helper()
	h := &host{got: make(chan []byte, 4096), payer: quota.New(quota.Cost{Memory: payerRoom})}
	h.Station = h.on.Join(segment.Config{MAC: [6]byte{2, 0, 0, 0, 0, last}, MTU: func() int { return 1500 }, Wake: func() {}})
	must.OK(t, h.AddFlow(&ether.Rule{Type: ether.AllDefault, To: h}))
	h.joint = must.Get[*Joint](t)(Open(dir, &h.on, h.payer, slog.New(slog.NewTextHandler(&h.log, nil))))
	t.Cleanup(h.joint.Close)
	return h
}

var everybody = [6]byte{255, 255, 255, 255, 255, 255}

func (h *host) send(to [6]byte, text string) {
	from := h.MAC()
	b := append(append(append(append([]byte(nil), to[:]...), from[:]...), 0x88, 0xb5), text...)
	h.SendFrames(nil, []rxe.FrameOut{{Data: b}})
}

// hears waits for a frame that ends with text.
func (h *host) hears(t *testing.T, text string) {
	t.Helper()
	select {
	case b := <-h.got:
		if !bytes.HasSuffix(b, []byte(text)) {
			t.Errorf("heard %q, want %q", b, text)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("did not hear %q", text)
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	return len(must.Get[[]os.DirEntry](t)(os.ReadDir(dir)))
}

// TestJoin: three segments are one. A frame arrives once, and one to a station that is known goes
// there only. Nothing is left of those that have ended.
func TestJoin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	a, b, c := newHost(t, dir, 1), newHost(t, dir, 2), newHost(t, dir, 3)
	must.Eventually(t, "all are joined", func() bool { return a.joint.Len() == 2 && b.joint.Len() == 2 && c.joint.Len() == 2 })
	a.send(everybody, "to all")
	a.hears(t, "to all") // its own queue pairs reach each other
	b.hears(t, "to all")
	c.hears(t, "to all")
	b.send(a.MAC(), "to a")
	a.hears(t, "to a")
	c.send(b.MAC(), "to nobody that c knows") // so to all; and a knows that b is elsewhere
	b.hears(t, "to nobody that c knows")
	c.hears(t, "to nobody that c knows")
	a.send(b.MAC(), "to b")
	b.hears(t, "to b")
	a.send(everybody, "last")
	c.hears(t, "last")
	if n := len(a.got) + len(b.got) - 2; n > 0 {
		t.Errorf("%d frames too many", n)
	}
	c.joint.Close()
	must.Eventually(t, "one has left", func() bool { return a.joint.Len() == 1 && b.joint.Len() == 1 })
	a.joint.Close()
	b.joint.Close()
	if n := entries(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestDead: a process that was killed leaves a socket, which the next one removes.
func TestDead(t *testing.T) {
	dir := t.TempDir()
	dead := must.Get[*net.UnixListener](t)(net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "gorxe-segment-DEAD.sock"), Net: "unixpacket"}))
	dead.SetUnlinkOnClose(false)
	must.OK(t, dead.Close())
	must.OK(t, os.WriteFile(filepath.Join(dir, "another file"), nil, 0o600))
	h := newHost(t, dir, 1)
	if n := entries(t, dir); n != 2 || h.joint.Len() != 0 {
		t.Errorf("%d files, %d others", n, h.joint.Len())
	}
}

// TestRefuse: a directory that others write to, one that is none, and one that is locked.
func TestRefuse(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	must.OK(t, os.Mkdir(open, 0o700))
	must.OK(t, os.Chmod(open, 0o777))
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	link := filepath.Join(t.TempDir(), "link")
	must.OK(t, os.Symlink(t.TempDir(), link))
	for dir, want := range map[string]string{open: "others may write", file: "not a directory", long: "longer than", link: "not a directory"} {
		var s segment.Segment
		if j, err := Open(dir, &s, quota.New(quota.Cost{}), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", dir, j, err)
		}
	}
	if err := private(&unix.Stat_t{Uid: uint32(os.Geteuid()) + 1, Mode: 0o700}); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("another user's: %v", err)
	}
}

// dial connects to the only socket of a directory, as another program may.
func dial(t *testing.T, dir string) *net.UnixConn {
	t.Helper()
	name := must.Get[[]os.DirEntry](t)(os.ReadDir(dir))[0].Name()
	c := must.Get[*net.UnixConn](t)(net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixpacket"}))
	t.Cleanup(func() { c.Close() })
	return c
}

// TestHostile: a peer that sends anything but frames is cut off, and others go on.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, 1)
	good := dial(t, dir)
	frame := append(append(bytes.Clone(everybody[:]), 2, 9, 9, 9, 9, 9), "\x88\xb5a frame"...)
	for _, bad := range [][]byte{frame[:13], make([]byte, rxe.MaxFrame+1)} {
		c := dial(t, dir)
		must.Get[int](t)(c.Write(frame))
		h.hears(t, "a frame")
		must.Get[int](t)(c.Write(bad))
		must.OK(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		if n, err := c.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
			t.Errorf("after %d bytes: %d, %v", len(bad), n, err)
		}
	}
	// Descriptors do not reach this process.
	before := entries(t, "/proc/self/fd")
	must.Get[int](t)(good.Write(frame))
	h.hears(t, "a frame")
	for range 10 {
		_, _, err := good.WriteMsgUnix(frame, unix.UnixRights(0, 0, 0), nil)
		must.OK(t, err)
		h.hears(t, "a frame")
	}
	if n := entries(t, "/proc/self/fd"); n > before {
		t.Errorf("%d descriptors, before %d", n, before)
	}
}

// TestSlow: a peer that reads nothing loses frames, which are counted, and holds up nobody.
func TestSlow(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, 1)
	slow := dial(t, dir)
	other := newHost(t, dir, 2)
	must.Eventually(t, "both are joined", func() bool { return h.joint.Len() == 2 })
	rest := strings.Repeat("x", 1400)
	for sent := 0; h.Counters.NotTaken.Load() == 0; sent++ {
		if sent > 1<<20 {
			t.Fatal("a peer takes any number of frames")
		}
		h.send(everybody, rest)
		<-h.got
		<-other.got
	}
	h.send(everybody, "heard")
	other.hears(t, "heard")
	_ = slow
}

// TestCloseInFlood: a peer that sends without end does not hold up the end.
func TestCloseInFlood(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, 1)
	h.slow.Store(true)
	c := dial(t, dir)
	raw := must.Get[syscall.RawConn](t)(c.SyscallConn())
	frames := make([][]byte, 1024)
	for i := range frames {
		frames[i] = append(append(bytes.Clone(everybody[:]), 2, 9, 9, 9, 9, 9), "\x88\xb5a frame"...)
	}
	var flood sync.WaitGroup
	defer flood.Wait()
	ended := make(chan struct{})
	defer close(ended)
	flood.Go(func() {
		for {
			mmsg.SendFrames(raw, nil, frames, unix.MSG_NOSIGNAL)
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	h.hears(t, "a frame")
	closed := make(chan struct{})
	go func() { h.joint.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("Close waits for a peer that does not stop")
	}
}

// TestMost: the number of peers is bounded.
func TestMost(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, 1)
	for range maxLinks {
		dial(t, dir)
	}
	must.Eventually(t, "all are joined", func() bool { return h.joint.Len() == maxLinks })
	more := dial(t, dir)
	must.OK(t, more.SetReadDeadline(time.Now().Add(10*time.Second)))
	if n, err := more.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("one more than the most: %d, %v", n, err)
	}
}

// FuzzPeer: whatever a peer sends, nothing panics, and only frames arrive.
func FuzzPeer(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x09\x88\xb5x"), true)
	f.Add([]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x01\x81\x00\x00\x05\x08\x00\x45\x00\x00\x14"), true)
	f.Add([]byte("short"), true)
	f.Add([]byte(nil), true)
	f.Add(make([]byte, 100), false)
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		h := &host{got: make(chan []byte, 4)}
		h.Station = h.on.Join(segment.Config{MAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: func() int { return 1500 }, Wake: func() {}})
		must.OK(t, h.AddFlow(&ether.Rule{Type: ether.AllDefault, To: h}))
		l := &link{joint: &Joint{log: slog.New(slog.DiscardHandler)}}
		l.trunk = h.on.Connect(l)
		goesOn := l.take(b, whole)
		if good := whole && len(b) >= ether.HeaderSize && len(b) <= rxe.MaxFrame; goesOn != good {
			t.Errorf("%d bytes: goes on: %v", len(b), goesOn)
		}
		// What a peer has sent is learned, and never goes back to it: l has no socket.
		if len(h.got) > 1 || !goesOn && len(h.got) != 0 {
			t.Errorf("%d frames", len(h.got))
		}
	})
}

// TestPays: the user pays for each link, and has no more links than the budget has room for. A link
// that ends gives back what it took.
func TestPays(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, 1)
	first := dial(t, dir)
	must.Eventually(t, "one is joined", func() bool { return h.joint.Len() == 1 })
	one := h.payer.Used()
	if one.Files != 1 || one.Memory < 32*frameRoom || one.Memory > payerRoom/maxLinks {
		t.Fatalf("a link takes %+v", one)
	}
	const most = 5
	must.OK(t, h.payer.Take(quota.Cost{Memory: payerRoom - most*one.Memory}))
	var more []*net.UnixConn
	for range most + 3 {
		more = append(more, dial(t, dir))
	}
	for _, c := range more[most-1:] { // in the order in which they came
		must.OK(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
		if n, err := c.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
			t.Fatalf("a peer without room: %d, %v", n, err)
		}
	}
	if n := h.joint.Len(); n != most || h.payer.Used().Files != most {
		t.Errorf("%d links of %d take %+v", n, most, h.payer.Used())
	}
	must.OK(t, first.Close())
	must.Eventually(t, "one has left", func() bool { return h.joint.Len() == most-1 })
	h.joint.Close()
	h.payer.Give(quota.Cost{Memory: payerRoom - most*one.Memory})
	must.Eventually(t, "all is given back", func() bool { return h.payer.Used() == quota.Cost{} })
}
