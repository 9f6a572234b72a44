package doorbell

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/test/statetable"
	"github.com/gorxe/gorxe/internal/trap/sealed"
)

// memfdFile is a device's file, which has nothing to do.
type memfdFile struct {
	kernel.DoorbellFile
	fd int
}

func (f *memfdFile) FD() int                             { return f.fd }
func (f *memfdFile) DoorbellOffset() int64               { return 0 }
func (f *memfdFile) TakeDoorbells(bool) kernel.Doorbells { return kernel.Doorbells{} }
func (f *memfdFile) Sweep()                              {}

// newDevice adds a device to the watch, and returns the program's descriptor of it.
func newDevice(t testing.TB, w *Watch) (d *Device, program int) {
	t.Helper()
	fd, err := sealed.FixedSize("gorxe-test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	program, err = unix.Open(procfs.SelfFD(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(program) })
	if d, err = w.Add(&memfdFile{fd: fd}, program, 1); err != nil || d == nil {
		t.Fatalf("the device has no direct doorbells: %v", err)
	}
	return d, program
}

// newWatch is a watch without a receiver.
func newWatch(t testing.TB) *Watch {
	t.Helper()
	w := new(Watch)
	w.Init(new(Instances), new(Instances), new(Extra), new(fakeOwner))
	t.Cleanup(w.Close)
	return w
}

// rings makes a doorbell, and reports whether inotify does.
func rings(t *testing.T, w *Watch, program int) bool {
	t.Helper()
	if _, err := unix.Pwrite(program, make([]byte, 32), 0); err != nil {
		t.Fatal(err)
	}
	if events(t, w) == 0 {
		return false
	}
	w.read()
	return true
}

// TestMute: inotify does not report the doorbells of a muted device, which stays on the list
// instead. When that ends, the device is looked at once more.
func TestMute(t *testing.T) {
	w, taker := newWatch(t), new(fakeTaker)
	d, program := newDevice(t, w)
	look := func() bool {
		if w.Take(taker) != d {
			return false
		}
		w.Serve(d, taker)
		return true
	}
	if !rings(t, w, program) || !look() || look() {
		t.Fatal("a doorbell does not put the device on the list once")
	}
	d.Mute(true)
	for range 3 {
		if rings(t, w, program) {
			t.Fatal("inotify reports a doorbell of a muted device")
		}
		if !look() {
			t.Fatal("a muted device is not on the list")
		}
	}
	look()
	d.Mute(false)
	if !look() || look() {
		t.Error("the device is not looked at once more")
	}
	if !rings(t, w, program) || !look() {
		t.Error("inotify no longer reports doorbells")
	}
	d.Mute(true)
	d.Remove()
	look()
	d.Mute(true)
	if look() {
		t.Error("a device that was removed stays on the list")
	}
}

// TestNoticeTable walks the table in notice's comment, and looks at what each state is for: whether
// inotify reports a doorbell, and whether the device is on the list without one.
func TestNoticeTable(t *testing.T) {
	enter := map[string]func(*pipeRig){
		"reported": func(r *pipeRig) {},
		"muted": func(r *pipeRig) {
			r.usePipe(r.d, r.program)
			r.d.Mute(true)
			r.w.dropPipe()
		},
		"masked": func(r *pipeRig) { r.d.Mute(true) },
	}
	happen := map[string]func(*pipeRig){
		"mute":       func(r *pipeRig) { r.d.Mute(true) },
		"mute, pipe": func(r *pipeRig) { r.usePipe(r.d, r.program); r.d.Mute(true) },
		"unmute":     func(r *pipeRig) { r.d.Mute(false) },
		"remove":     func(r *pipeRig) { r.d.Remove() },
	}
	states := map[string]notice{"reported": reported, "muted": muted, "masked": masked}
	table := statetable.Read(t, "watch.go", "notice")
	if len(table) != len(states) {
		t.Fatalf("%d states in the comment, want %d", len(table), len(states))
	}
	for state, row := range table {
		if len(row) != len(happen) {
			t.Errorf("%s: %d events in the comment, want %d", state, len(row), len(happen))
		}
		for event, next := range row {
			t.Run(state+", "+event, func(t *testing.T) {
				r := &pipeRig{t: t, owner: new(fakeOwner)}
				r.w = newWatch(t)
				r.w.owner = r.owner
				r.d, r.program = newDevice(t, r.w)
				enter[state](r)
				if r.d.events != states[state] {
					t.Fatalf("state %d, want %s", r.d.events, state)
				}
				happen[event](r)
				to, known := states[next]
				if !known || r.d.events != to {
					t.Fatalf("state %d, want %s", r.d.events, next)
				}
				r.checkNotice(to, event != "remove")
			})
		}
	}
}

// checkNotice wants that the device is on the list after each look, unless its doorbells are
// reported. inotify must report a doorbell, unless it is masked or the device was removed.
func (r *pipeRig) checkNotice(n notice, watched bool) {
	r.t.Helper()
	taker := new(fakeTaker)
	for range 2 {
		if d := r.w.Take(taker); d != nil {
			r.w.Serve(d, taker)
		}
	}
	if listed := r.w.Pending() == 1; listed != (n != reported) {
		r.t.Errorf("on the list: %t", listed)
	}
	if events(r.t, r.w) == 1 {
		r.w.read() // what Mute and UsePipe write
	}
	if got := rings(r.t, r.w, r.program); got != (watched && n != masked) {
		r.t.Errorf("inotify reports a doorbell: %t", got)
	}
}

// TestMuteOneOfSeveral: no device is muted beside others, and one that was is muted no longer when
// another one comes.
func TestMuteOneOfSeveral(t *testing.T) {
	w, taker := newWatch(t), new(fakeTaker)
	first, program := newDevice(t, w)
	first.Mute(true)
	second, _ := newDevice(t, w)
	second.Mute(true)
	if second.events != reported || w.Pending() != 1 {
		t.Error("a device beside another one was muted")
	}
	w.Serve(w.Take(taker), taker)
	first.Mute(true) // as after each look that finds a stream
	if !rings(t, w, program) {
		t.Error("the first device is still muted")
	}
}

// TestMutedTakerReplaced: if the thread that looks at a muted device is blocked and replaced, its
// successor looks at the device, although no doorbell says so.
func TestMutedTakerReplaced(t *testing.T) {
	w, blocked := newWatch(t), new(fakeTaker)
	d, _ := newDevice(t, w)
	d.Mute(true)
	if w.Take(blocked) != d {
		t.Fatal("a muted device is not on the list")
	}
	w.Replaced()
	if w.Pending() != 0 {
		t.Error("two threads look at one device")
	}
	blocked.replaced.Store(true)
	w.Replaced()
	if w.Take(new(fakeTaker)) != d {
		t.Error("the successor does not look at the device")
	}
}

// BenchmarkDoorbell is what a doorbell costs the program.
func BenchmarkDoorbell(b *testing.B) {
	for _, mute := range []bool{false, true} {
		name := "reported"
		if mute {
			name = "muted"
		}
		b.Run(name, func(b *testing.B) {
			w := newWatch(b)
			d, program := newDevice(b, w)
			d.Mute(mute)
			request := make([]byte, 32)
			for b.Loop() {
				if _, err := unix.Pwrite(program, request, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
