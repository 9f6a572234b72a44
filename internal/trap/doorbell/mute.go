package doorbell

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/sys/procfs"
)

// A device is muted while the thread that takes its doorbells looks again in any case: its program
// posts a stream, or the thread lingers. inotify then does not report the doorbells, and the device
// stays on the list. A doorbell costs the program a third less (BenchmarkDoorbell), and the thread
// reads no event. The kernel's network drivers do the same with interrupts (NAPI).

// noEvent never comes, because a memfd cannot be moved. inotify needs some event.
const noEvent = unix.IN_MOVE_SELF

// Mute mutes a device, or ends that. The thread that has just served the device calls it, and ends
// it as soon as a look finds nothing. A watch of several devices mutes none, as its helpers would
// look again and again, too.
func (d *Device) Mute(on bool) {
	w := d.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	on = on && len(w.watches) == 1
	if on == (d.events != reported) || w.watches[d.wd] != d {
		return
	}
	to := reported
	switch {
	case on && w.pipe.device == d:
		to = muted // nobody waits for the pipe meanwhile, so a write to it costs little
	case on:
		to = masked
	}
	if !d.mask(to == masked) {
		return
	}
	d.events = to
	w.enter(d) // once more: a doorbell may have come before the mask was changed
}

// mask makes inotify report no doorbells of the device, or ends that. It reports whether the kernel
// agreed. Watch.mu is held.
func (d *Device) mask(on bool) bool {
	if on == (d.events == masked) {
		return true
	}
	mask := uint32(unix.IN_MODIFY)
	if on {
		mask = noEvent
	}
	// The file is open: Remove comes before its Close. The watch stays the same, with another mask.
	if _, err := unix.InotifyAddWatch(d.watch.notify, procfs.SelfFD(d.file.FD()), mask); err != nil {
		return false
	}
	return true
}
