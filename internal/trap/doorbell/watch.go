package doorbell

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/sys/procfs"
	"github.com/gorxe/gorxe/internal/trap/sealed"
)

// Watch waits for the direct doorbells of a session. Such a doorbell is a write to a device's
// memfd, which the kernel carries out, and which inotify reports. Or it is a write to a pipe that
// replaces the memfd.
type Watch struct {
	instances *Instances // of the daemon
	own       *Instances // of the user
	owner     Owner
	open      atomic.Bool // there were devices with such doorbells
	notify    int         // the inotify instance, once open
	wake      int         // a memfd that is watched as well: a write to it ends Wait

	mu      sync.Mutex // comes before the owner's locks
	pipe    pipe
	inotify inotifyWaiter
	stopped bool // no more devices get such doorbells
	watches map[int]*Device
	pending []*Device // their doorbells must be taken, and no thread has them in hand
	freed   sync.Cond // a thread has a device no longer in hand
	work    sync.Cond // helpers.wanted has changed
	helpers helpers
}

// Owner is what has a watch, and gives it threads.
type Owner interface {
	// Start starts the receiver of doorbells. It is called once, with the descriptor of inotify.
	Start(inotify int) error
	StartHelper()
	// AddPipe is called before the receiver waits for a pipe, too. Watch.mu is held.
	AddPipe(read int) error
	// RemovePipe is called before that pipe is closed. Watch.mu may be held.
	RemovePipe()
	// AwaitBypass makes the owner call Watch.Bypassed when inotify has something to report, or ends
	// that.
	AwaitBypass(on bool)
}

// Instances counts the watches of a process. The zero value is ready.
type Instances struct{ open atomic.Int32 }

// take counts one more, and reports whether there may be one.
func (i *Instances) take(most int32) bool {
	if i.open.Add(1) <= most {
		return true
	}
	i.open.Add(-1)
	return false
}

// Many reports whether a session should do with the instance that it has.
func (i *Instances) Many() bool { return i.open.Load() >= manyInstances }

// A Device is an open device with direct doorbells.
type Device struct {
	watch *Watch
	file  kernel.DoorbellFile
	tgid  int // the process that has opened it
	wd    int
	swept atomic.Int64 // when Sweep was last called, clock.Now

	// Under Watch.mu:
	due    due
	taker  Taker // has its doorbells in hand, or nil
	calls  int   // that wait to have it in hand
	events notice
}

// due says whether a thread should take the doorbells of a device.
//
//	state   a doorbell comes                    Take finds it        the thread that had it is done
//	rests   listed; missed while a thread       -                    -
//	        has it, or a call waits for it
//	listed  -                                   rests; missed if a   -
//	                                            thread has it
//	missed  -                                   -                    listed
type due uint8

const (
	rests due = iota
	listed
	missed
)

// notice says how the doorbells of a device are noticed. The rows are states, and the columns are
// events. A device that is muted while a pipe replaces its file stays muted, also if the pipe goes.
//
//	         | mute   | mute, pipe | unmute   | remove
//	reported | masked | muted      | reported | reported
//	muted    | muted  | muted      | reported | reported
//	masked   | masked | masked     | reported | reported
type notice uint8

const (
	reported notice = iota // inotify reports them, or the pipe
	muted                  // the device stays on the list, and nobody waits for its pipe
	masked                 // the same, and inotify does not report them
)

// TakeDoorbells takes the doorbells of the device, and reports whether there are more. It takes
// messages without a credit, too (kernel.DoorbellFile).
func (d *Device) TakeDoorbells() (more bool) { return d.file.TakeDoorbells(false).More }

// Process returns the number of the process that has opened the device.
func (d *Device) Process() int { return d.tgid }

// Again puts the device on the list of its watch, and makes the receiver look at that.
func (d *Device) Again() {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	d.watch.enter(d)
	d.watch.rouse()
}

// Init makes the watch usable. instances counts those of all users, and own those of its user.
// extra counts its helpers.
func (w *Watch) Init(instances, own *Instances, extra *Extra, owner Owner) {
	w.instances, w.own, w.owner, w.helpers.extra = instances, own, owner, extra
	w.freed.L, w.work.L = &w.mu, &w.mu
}

// Open reports whether there is, or was, a device with direct doorbells.
func (w *Watch) Open() bool { return w.open.Load() }

// Devices returns how many devices it has.
func (w *Watch) Devices() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches)
}

// Add makes the device behind the description fd, which process tgid opens, one with direct
// doorbells. It returns nil if the kernel grants no inotify watch.
func (w *Watch) Add(file kernel.DoorbellFile, fd, tgid int) (*Device, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begin() {
		return nil, nil
	}
	wd, err := unix.InotifyAddWatch(w.notify, procfs.SelfFD(fd), unix.IN_MODIFY)
	if err != nil {
		return nil, nil
	}
	if _, err := unix.Seek(fd, file.DoorbellOffset(), unix.SEEK_SET); err != nil {
		return nil, fmt.Errorf("lseek of a memfd: %w", err)
	}
	d := &Device{watch: w, file: file, tgid: tgid, wd: wd}
	w.watches[wd] = d
	return d, nil
}

// begin makes the instance and starts the receiver, if there is none; w.mu is held.
func (w *Watch) begin() bool {
	switch {
	case w.stopped:
		return false
	case w.open.Load():
		return true
	case !w.count():
		return false
	case !w.make():
		w.uncount()
		return false
	}
	if w.owner.Start(w.notify) != nil {
		w.close()
		return false
	}
	w.open.Store(true)
	return true
}

// count counts an instance, and reports whether the user may have one more.
func (w *Watch) count() bool {
	if !w.instances.take(maxInstances) {
		return false
	}
	mine := int32(maxOwn)
	if w.instances.open.Load() <= freeInstances {
		mine = maxInstances
	}
	if !w.own.take(mine) {
		w.instances.open.Add(-1)
		return false
	}
	return true
}

func (w *Watch) make() bool {
	notify, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return false
	}
	wake, err := openWake()
	if err != nil {
		unix.Close(notify)
		return false
	}
	if _, err := unix.InotifyAddWatch(notify, procfs.SelfFD(wake), unix.IN_MODIFY); err != nil {
		unix.Close(notify)
		unix.Close(wake)
		return false
	}
	w.notify, w.wake, w.watches = notify, wake, make(map[int]*Device)
	return true
}

// openWake makes the memfd that Rouse writes to. It opens the file a second time: since Linux
// 6.14, inotify does not report writes to the descriptor that memfd_create returned
// (alloc_file_pseudo sets FMODE_NONOTIFY).
func openWake() (int, error) {
	fd, err := sealed.FixedSize("gorxe-wake", 1)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.Open(procfs.SelfFD(fd), unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// Stop lets no more devices come, and reports whether the receiver was started.
func (w *Watch) Stop() bool {
	w.mu.Lock()
	w.stopped = true
	w.work.Broadcast()
	w.mu.Unlock()
	return w.open.Load()
}

// Remove ends the watch of the device.
func (d *Device) Remove() {
	w := d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches[d.wd] != d {
		return
	}
	delete(w.watches, d.wd)
	d.events = reported
	if w.pipe.device == d {
		w.pipe.release()
	}
	_, _ = unix.InotifyRmWatch(w.notify, uint32(d.wd)) // it fails if the file is gone
}

// Close is called when no receiver is left.
func (w *Watch) Close() {
	if w.open.Load() {
		w.close()
	}
}

func (w *Watch) close() {
	unix.Close(w.notify)
	unix.Close(w.wake)
	w.dropPipe()
	w.uncount()
}

func (w *Watch) uncount() {
	w.own.open.Add(-1)
	w.instances.open.Add(-1)
}

// read waits for doorbells and puts the devices that have rung on the list. It returns
// early if a signal comes.
func (w *Watch) read() {
	var buf [eventsPerRead * unix.SizeofInotifyEvent]byte
	n, err := unix.Read(w.notify, buf[:])
	if err != nil {
		return // EINTR
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := buf[:n]; len(e) >= unix.SizeofInotifyEvent; {
		w.note(int(int32(binary.NativeEndian.Uint32(e))), binary.NativeEndian.Uint32(e[4:]))
		e = e[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(e[12:])):]
	}
}

// note enters the device of one event; w.mu is held. If events were lost, all have rung.
func (w *Watch) note(wd int, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, d := range w.watches {
			w.enter(d)
		}
	} else if d := w.watches[wd]; d != nil && mask&unix.IN_MODIFY != 0 {
		w.enter(d)
	}
}

// enter puts a device on the list once; w.mu is held. If a thread has it in hand, or waits for
// it, that thread puts it there.
func (w *Watch) enter(d *Device) {
	switch {
	case d.due == listed:
	case d.wanted():
		d.due = missed
	default:
		d.due = listed
		w.pending = append(w.pending, d)
	}
}

// Take takes one device off the list, for t to serve; nil if there is none. What is left
// when a receiver is blocked is for the next one.
func (w *Watch) Take(t Taker) *Device {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 {
		d := w.pending[0]
		w.pending = append(w.pending[:0], w.pending[1:]...)
		if d.due = rests; d.wanted() {
			d.due = missed
			continue
		}
		d.taker = t
		return d
	}
	return nil
}

// Rouse makes the receiver look at the list.
func (w *Watch) Rouse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rouse()
}

// rouse is Rouse; w.mu is held.
func (w *Watch) rouse() {
	if w.inotify.onPipe() && w.pipe.device != nil {
		w.pipe.knock()
	} else {
		_, _ = unix.Pwrite(w.wake, make([]byte, 1), 0)
	}
}

// Pending returns the number of devices on the list.
func (w *Watch) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}
