package daemon

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorxe/gorxe/internal/cm/rdmacm"
	"github.com/gorxe/gorxe/internal/kernel/nldev"
	"github.com/gorxe/gorxe/internal/kernel/tree"
)

// view of devices that a session has, after a fault rule has removed some.
type shownDevices struct {
	lost    []*device
	tree    *tree.Tree
	netlink []*nldev.Device
}

// removals are the devices that fault rules have removed from a session.
type removals struct {
	shown atomic.Pointer[shownDevices] // nil: all

	mu     sync.Mutex // below, and of changes
	back   map[*device]*time.Timer
	ending bool
}

// lacks reports whether the session has lost a device.
func (r *removals) lacks(d *device) bool {
	shown := r.shown.Load()
	return shown != nil && slices.Contains(shown.lost, d)
}

// lacksCM is lacks for a device of the connection manager.
func (r *removals) lacksCM(d *rdmacm.Device) bool {
	shown := r.shown.Load()
	return shown != nil && slices.ContainsFunc(shown.lost, func(l *device) bool { return l.cm == d })
}

// set makes the session have a device, or not. r.mu is locked.
func (r *removals) set(s *Server, d *device, lost bool) {
	var list []*device
	if old := r.shown.Load(); old != nil {
		list = slices.DeleteFunc(slices.Clone(old.lost), func(l *device) bool { return l == d })
	}
	if lost {
		list = append(list, d)
	}
	if len(list) == 0 {
		r.shown.Store(nil)
		return
	}
	shown := &shownDevices{lost: list}
	var devices []tree.Device
	for i, each := range s.devices {
		view := each.sysfs()
		view.Gone = slices.Contains(list, each)
		devices = append(devices, view)
		if !view.Gone {
			shown.netlink = append(shown.netlink, s.netlink.devices[i])
		}
	}
	shown.tree = tree.New(devices, tree.RDMACM())
	r.shown.Store(shown)
}

// remove takes a device away from the session, for a time or, with 0, for ever. Its programs see
// what they see when the kernel unplugs a device. It blocks while calls on the device are in
// progress.
func (n *session) remove(d *device, back time.Duration) {
	r := &n.removed
	r.mu.Lock()
	if r.ending || r.lacks(d) {
		r.mu.Unlock()
		return
	}
	n.mu.Lock() // no file of the device is opened from now on
	r.set(n.server, d, true)
	n.mu.Unlock()
	r.mu.Unlock()
	n.log.Info("a fault rule has removed a device", "device", d.spec.Name)
	n.server.cm.RemoveFrom(d.cm)
	for _, f := range n.openFiles() {
		if f.device == d {
			go f.Remove() // it waits for the program's calls
		}
	}
	for _, f := range n.openMADs(d) {
		go f.Remove() // likewise
	}
	if back > 0 { // not before the session's ids and files have lost the device
		n.restoreAfter(d, back)
	}
}

// restoreAfter gives a device back after a time, unless the session has ended by then.
func (n *session) restoreAfter(d *device, back time.Duration) {
	r := &n.removed
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return
	}
	if r.back == nil {
		r.back = make(map[*device]*time.Timer)
	}
	r.back[d] = time.AfterFunc(back, func() { n.restore(d) })
}

// restore gives a device back. Programs have to open it again.
func (n *session) restore(d *device) {
	r := &n.removed
	r.mu.Lock()
	if r.ending || !r.lacks(d) {
		r.mu.Unlock()
		return
	}
	r.set(n.server, d, false)
	delete(r.back, d)
	r.mu.Unlock()
	n.server.cm.Restore(d.cm)
}

// endRemovals stops the timers.
func (n *session) endRemovals() {
	r := &n.removed
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	for _, t := range r.back {
		t.Stop()
	}
}

// removeFor does what a rule says: it removes a device from this session, or from all.
func (n *session) removeFor(d *device, back time.Duration, all bool) {
	if !all {
		n.remove(d, back)
		return
	}
	n.server.mu.Lock()
	list := make([]*session, 0, len(n.server.sessions))
	for each := range n.server.sessions {
		list = append(list, each)
	}
	n.server.mu.Unlock()
	for _, each := range list {
		each.remove(d, back)
	}
}
