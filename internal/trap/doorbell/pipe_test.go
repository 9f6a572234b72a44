package doorbell

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// pipeRig is a device with a pipe in the place of its file.
type pipeRig struct {
	t       *testing.T
	w       *Watch
	owner   *fakeOwner
	d       *Device
	program int // the program's descriptor of the file; the watch has a duplicate
	pipe    int // the program's descriptor of the pipe
}

func newPipeRig(t *testing.T) *pipeRig {
	t.Helper()
	r := &pipeRig{t: t, w: new(Watch), owner: new(fakeOwner)}
	r.w.Init(new(Instances), new(Instances), new(Extra), r.owner)
	t.Cleanup(r.w.Close)
	r.d, r.program = newDevice(t, r.w)
	r.pipe = r.usePipe(r.d, r.program)
	return r
}

// usePipe makes the pipe replace the file, and returns the program's descriptor of it.
func (r *pipeRig) usePipe(d *Device, program int) int {
	r.t.Helper()
	write, err := d.UsePipe(duplicate(r.t, program))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { unix.Close(write) })
	return write
}

func duplicate(t *testing.T, fd int) int {
	t.Helper()
	two, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return two
}

// ring writes a doorbell.
func (r *pipeRig) ring(fd int) {
	r.t.Helper()
	if n, err := unix.Write(fd, make([]byte, 32)); n != 32 {
		r.t.Fatal(err)
	}
}

// wants waits, and wants the devices that are on the list then.
func (r *pipeRig) wants(want ...*Device) {
	r.t.Helper()
	r.w.Wait(0, false)
	taker := new(fakeTaker)
	for _, d := range want {
		if got := r.w.Take(taker); got != d {
			r.t.Fatalf("device %p is on the list, want %p", got, d)
		}
		r.w.Serve(d, taker)
	}
	if r.w.Pending() != 0 {
		r.t.Fatal("more devices are on the list")
	}
}

// begin lets the receiver find out that there is a pipe. UsePipe has ended its wait for inotify.
func (r *pipeRig) begin() {
	r.t.Helper()
	r.ring(r.pipe)
	r.wants(r.d)
	if !r.owner.bypass {
		r.t.Fatal("the owner does not wait for bypassing doorbells")
	}
}

// TestPipe: doorbells come through the pipe, however many there are. So do Rouse and what inotify
// reports.
func TestPipe(t *testing.T) {
	r := newPipeRig(t)
	if events(t, r.w) != 1 {
		t.Error("the receiver goes on waiting for inotify")
	}
	r.begin()
	for _, n := range []int{1, 2, 128, 129, 500} {
		for range n {
			r.ring(r.pipe)
		}
		r.wants(r.d)
	}
	r.w.Rouse()
	r.wants(r.d)
	// a forked process has the file
	if _, err := unix.Pwrite(r.program, make([]byte, 32), 0); err != nil {
		t.Fatal(err)
	}
	r.w.Bypassed()
	r.wants(r.d) // woken by the pipe
	if readable(r.w.pipe.read) {
		t.Error("something is left in the pipe")
	}
	r.ring(r.pipe)
	r.wants(r.d)
	if events(t, r.w) != 0 {
		t.Error("something is left in inotify")
	}
}

// TestPipeEnds: when the program has closed its last descriptor of the pipe, the watch gives up the
// file, and waits for inotify.
func TestPipeEnds(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	file, err := r.d.File()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(file)
	second := r.usePipe(r.d, r.program) // the watch has the file already
	unix.Close(r.pipe)
	r.w.Rouse()
	r.wants(r.d)
	if !r.d.HasPipe() {
		t.Fatal("the pipe is gone, and a descriptor of it is left")
	}
	unix.Close(second)
	r.wants(r.d) // the end of the file
	if r.d.HasPipe() {
		t.Error("the pipe still replaces the file")
	}
	if _, err := r.d.File(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the watch still has the file: %v", err)
	}
	if !rings(t, r.w, r.program) {
		t.Error("inotify reports no doorbell")
	}
	r.w.Wait(0, false)
	if r.owner.bypass {
		t.Error("the owner still waits for bypassing doorbells")
	}
	third := r.usePipe(r.d, r.program)
	r.ring(third)
	if !readable(r.w.pipe.read) {
		t.Error("the pipe cannot be used again")
	}
}

// TestPipeOpenedAgain: a pipe that the program has again is not given up, although the receiver has
// read the end of the file.
func TestPipeOpenedAgain(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	unix.Close(r.pipe)
	again := r.usePipe(r.d, r.program)
	r.w.mu.Lock()
	r.w.hungUp() // the receiver was about to call it
	r.w.mu.Unlock()
	r.ring(again)
	r.wants(r.d)
	if !r.d.HasPipe() {
		t.Error("the pipe was given up")
	}
}

// TestPipeOfOne: a pipe replaces the file of one device of several. The doorbells of all are taken,
// and another one can have a pipe when the program has closed the first.
func TestPipeOfOne(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	other, program := newDevice(t, r.w)
	if _, err := other.UsePipe(duplicate(t, program)); !errors.Is(err, ErrPipeTaken) {
		t.Errorf("a pipe for two devices: %v", err)
	}
	r.w.Rouse() // the receiver waits for the pipe still
	r.wants(r.d)
	r.ring(r.pipe)
	r.wants(r.d)
	r.ring(program)
	r.wants(other)
	if r.owner.bypass {
		t.Error("the owner waits for inotify beside the receiver")
	}
	unix.Close(r.pipe)
	r.wants(r.d)
	r.d.Remove()
	r.ring(r.usePipe(other, program))
	r.wants(other)
	if _, err := r.d.UsePipe(duplicate(t, r.program)); err == nil {
		t.Error("a device that was removed has a pipe")
	}
	other.Remove()
	third, program := newDevice(t, r.w)
	if _, err := third.UsePipe(duplicate(t, program)); !errors.Is(err, ErrPipeTaken) {
		t.Errorf("the pipe of a device that was removed: %v", err)
	}
}

// TestPipeMuted: a device with a pipe is muted without inotify, and the program can fill no pipe
// that the receiver looks at.
func TestPipeMuted(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	r.d.Mute(true)
	if r.d.events == masked {
		t.Error("inotify reports no bypassing doorbell")
	}
	taker := new(fakeTaker)
	for range 3 {
		for range 1500 { // a pipe has room for 2,048
			r.ring(r.pipe)
		}
		r.w.pipe.found = 1500
		r.w.Wait(0, false)
		if r.w.Take(taker) != r.d {
			t.Fatal("a muted device is not on the list")
		}
		r.w.Serve(r.d, taker)
	}
	r.d.Mute(false)
	r.w.Take(taker)
	r.w.Serve(r.d, taker)
	if r.w.Pending() != 0 {
		t.Error("the device is still muted")
	}
	unix.Close(r.pipe)
	r.wants(r.d)
	if !rings(t, r.w, r.program) {
		t.Error("inotify reports no doorbell")
	}
}

// TestPipeFails: without a pipe, a device stays as it is.
func TestPipeFails(t *testing.T) {
	w, owner := new(Watch), &fakeOwner{noPipe: unix.ENOSPC}
	w.Init(new(Instances), new(Instances), new(Extra), owner)
	t.Cleanup(w.Close)
	d, program := newDevice(t, w)
	open := descriptors(t)
	if _, err := d.UsePipe(duplicate(t, program)); !errors.Is(err, unix.ENOSPC) || d.HasPipe() {
		t.Errorf("a pipe that the owner refuses: %v", err)
	}
	if n := descriptors(t); n != open {
		t.Errorf("%d descriptors are left", n-open)
	}
	owner.noPipe = nil
	if !rings(t, w, program) {
		t.Error("inotify reports no doorbell")
	}
	if w.Stop(); w.Pending() != 1 {
		t.Error("a doorbell is lost")
	}
	if _, err := d.UsePipe(duplicate(t, program)); err == nil {
		t.Error("a watch that has stopped makes a pipe")
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	dir, err := unix.Open(procfs.Path(unix.Getpid(), "fd"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	buf, n := make([]byte, 1<<16), 0
	for {
		got, err := unix.ReadDirent(dir, buf)
		if err != nil {
			t.Fatal(err)
		}
		if got <= 0 {
			return n
		}
		_, count, _ := unix.ParseDirent(buf[:got], -1, nil)
		n += count
	}
}

// TestPipeAtRest: a receiver may leave right after the end of the file. A pipe that replaces the
// file then, before the owner waits or afterwards, wakes the owner.
func TestPipeAtRest(t *testing.T) {
	for _, rests := range []bool{false, true} {
		r := newPipeRig(t)
		r.begin()
		unix.Close(r.pipe)
		r.wants(r.d)
		if readable(r.w.notify) {
			r.w.read()
		}
		if rests && r.w.Unattended() {
			t.Fatal("there is no pipe, and doorbells may come through it")
		}
		again := r.usePipe(r.d, r.program)
		r.ring(again)
		pipe := !rests && r.w.Unattended()
		if !readable(r.w.notify) && (!pipe || !readable(r.w.pipe.read)) {
			t.Errorf("at rest %t: a pipe and a doorbell wake nobody", rests)
		}
		r.wants(r.d)
		r.ring(again)
		r.wants(r.d)
	}
}

// bypassOwner calls meanwhile when it shall wait for bypassing doorbells or no longer.
type bypassOwner struct {
	fakeOwner
	meanwhile func()
}

func (o *bypassOwner) AwaitBypass(on bool) {
	o.fakeOwner.AwaitBypass(on)
	if o.meanwhile != nil {
		o.meanwhile()
	}
}

// TestPipeLeftAlone: a device beside the one with a pipe is removed while the receiver decides what
// to wait for. It still hears of Again.
func TestPipeLeftAlone(t *testing.T) {
	w, o := new(Watch), new(bypassOwner)
	w.Init(new(Instances), new(Instances), new(Extra), o)
	t.Cleanup(w.Close)
	d, program := newDevice(t, w)
	r := &pipeRig{t: t, w: w, owner: &o.fakeOwner, d: d, program: program}
	r.pipe = r.usePipe(d, program)
	r.begin()
	other, _ := newDevice(t, w)
	decided := make(chan struct{})
	o.meanwhile = func() {
		other.Remove()
		close(decided)
		o.meanwhile = nil
	}
	waited := make(chan struct{})
	go func() {
		w.Wait(0, false)
		close(waited)
	}()
	<-decided
	d.Again()
	<-waited
}

// TestPipeWithoutBypass: if the owner cannot wait for inotify, the receiver does.
func TestPipeWithoutBypass(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	r.w.NoBypass()
	r.wants(r.d)
	if _, err := unix.Pwrite(r.program, make([]byte, 32), 0); err != nil {
		t.Fatal(err)
	}
	r.wants(r.d)
	r.ring(r.pipe)
	r.wants(r.d)
	if r.owner.bypass {
		t.Error("the owner waits for inotify, too")
	}
}

// TestPipeOverfull: a program cannot keep the receiver busy with what it writes to the pipe.
func TestPipeOverfull(t *testing.T) {
	r := newPipeRig(t)
	r.begin()
	if _, err := unix.FcntlInt(uintptr(r.pipe), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Skip("pipes cannot be that large: ", err)
	}
	const more = 3 * 4096
	if n, err := unix.Write(r.pipe, make([]byte, mostReads*4096+more)); err != nil || n != mostReads*4096+more {
		t.Fatal(n, err)
	}
	r.wants(r.d)
	left, err := unix.Read(r.w.pipe.nowait, make([]byte, 1<<20))
	if err != nil || left != more {
		t.Errorf("the receiver has left %d bytes, %v; want %d", left, err, more)
	}
}
