package ucma

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
)

// File is an open file of the device: an event channel (ucma.c: struct ucma_file).
type File struct {
	*eventfile.Level // one record for each event
	dev              *Device
	owner            *rdmacm.Owner
	ready            func()
	faults           kernel.FaultPoint
	refusals         kernel.Refusals // nil: not wanted
	watcher          Watcher         // the same

	// reading is locked while the program gets an event. So a command that removes
	// events, or counts those that were read, runs before or after that.
	reading sync.Mutex

	// Device.mu guards these.
	events []*event
	closed bool
}

var _ kernel.PollFile = (*File)(nil)

// SetRefusals sets the receiver of calls that fail. It must be called before the first call.
func (f *File) SetRefusals(r kernel.Refusals) { f.refusals = r }

// SetFaults says what goes wrong with the verbs of this open. It must be called before the first
// call.
func (f *File) SetFaults(faults kernel.Faults) { f.faults.Init(faults) }

// OnReady implements kernel.PollFile.
func (f *File) OnReady(ready func()) { f.ready = ready }

// Read returns EINVAL, as for a file without a read method.
func (f *File) Read(kernel.Caller, uint64, uint64) (int64, error) { return 0, unix.EINVAL }

// Ioctl returns an error: the device has no ioctls.
func (f *File) Ioctl(kernel.Caller, uint32, uint64) (int64, error) { return 0, unix.ENOTTY }

// Close destroys the ids of the file (ucma.c: ucma_close). Their peers are told.
func (f *File) Close() {
	d := f.dev
	f.faults.End()
	d.mu.Lock()
	f.closed = true
	var ids []*cmID
	for _, c := range d.ids.entries {
		if c != nil && c.file == f {
			d.ids.hide(c.num)
			ids = append(ids, c)
		}
	}
	d.mu.Unlock()
	for _, c := range ids {
		d.unwatched(c, true)
		d.destroy(c)
	}
	d.closing.Wait()
	d.mu.Lock()
	delete(d.files, f.ID())
	d.mu.Unlock()
	f.Level.Close()
}
