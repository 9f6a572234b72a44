package doorbell

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/trap/procfs"
)

// A device is muted while its program posts a stream. inotify then does not report its doorbells, and it stays
// on the list, so the thread that takes them looks again and again. A doorbell costs the program a third
// less (BenchmarkDoorbell), and the thread reads no event. The kernel's network drivers do the same
// with interrupts (NAPI).

const (
	reported = unix.IN_MODIFY
	// muted never comes: a memfd cannot be moved. inotify needs some event.
	muted = unix.IN_MOVE_SELF
)

// Mute mutes a device, or ends that. The thread that has just served the device calls it, and ends it
// as soon as a look finds nothing. A watch of several devices mutes none, as its helpers would
// look again and again, too.
func (d *Device) Mute(on bool) {
	w := d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	on = on && len(w.watches) == 1
	if on == d.muted || w.watches[d.wd] != d {
		return
	}
	mask := uint32(reported)
	if on {
		mask = muted
	}
	// The file is open: Remove comes before its Close. The watch stays the same, with another mask.
	if _, err := unix.InotifyAddWatch(w.notify, procfs.SelfFD(d.file.FD()), mask); err != nil {
		return
	}
	d.muted = on
	w.enter(d) // once more: a doorbell may have come before the mask was changed
}
