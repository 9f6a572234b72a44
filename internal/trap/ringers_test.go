package trap

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/doorbell"
	"github.com/gorxe/gorxe/internal/trap/sealed"
)

// TestOwnThreads: each of a session's devices has a thread for its doorbells. The doorbells of one
// are in hand until those of the other are, and no helper is started.
func TestOwnThreads(t *testing.T) {
	m := newMeeting(t)
	m.helped = func() bool { return true }
	p, out := m.start(t, options{patient: true})
	<-m.met
	close(m.hold)
	out.Close() // the program goes on
	p.wait()
	m.allClosed(t)
	if m.late.Load() {
		t.Error("one thread takes all doorbells")
	}
	if n := len(p.session.direct.all()); n != 2 || helpersOf(p.session) != 0 {
		t.Errorf("%d threads and %d helpers for two devices, want 2 and 0", n, helpersOf(p.session))
	}
}

// TestFewThreads: devices beyond ringers.most share the threads that there are, and a thread whose
// device was closed serves the next one.
func TestFewThreads(t *testing.T) {
	p, tell, _ := tellToRing(t, options{patient: true})
	ringers := &p.session.direct
	var devices []*doorbell.Device
	add := func() {
		t.Helper()
		fd, err := sealed.FixedSize("gorxe-test", 8192)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		d, err := ringers.add(&fakeFile{fd: fd}, fd, os.Getpid())
		if err != nil || d == nil {
			t.Fatalf("a device has no direct doorbells: %v", err)
		}
		devices = append(devices, d)
	}
	for range ringers.most + 2 {
		add()
	}
	if n := len(ringers.all()); n != ringers.most {
		t.Errorf("%d threads for %d devices, want %d", n, ringers.most+3, ringers.most)
	}
	for _, d := range devices {
		d.Remove()
	}
	before := ringers.fewest()
	add()
	if len(ringers.all()) != ringers.most || before.watch.Devices() != 1 {
		t.Error("a thread without a device does not serve the next one")
	}
	devices[len(devices)-1].Remove()
	tell.Close()
	p.wait()
}
