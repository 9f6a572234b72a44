package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/umad"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/trap"
	"golang.org/x/sys/unix"
)

// file is a device that a program of a session has open.
type file struct {
	*uverbs.File
	session *session
	device  *device
	who     trap.Credentials
	reports *fileReports
	watcher *watcher // nil: none
}

// Close releases the program's objects, and then forgets the file. So the status always has
// the objects that still exist.
func (f *file) Close() {
	f.session.reports.leave(f)
	if f.watcher != nil {
		f.watcher.Close(f.Gone())
	}
	f.File.Close()
	if f.Overrun() {
		f.warn() // while the keeper still listens
	}
	f.session.mu.Lock()
	delete(f.session.files, f)
	f.session.mu.Unlock()
}

// fatal tells the session's programs that a device has failed, by a fault rule.
func (n *session) fatal(d *device) {
	for _, f := range n.openFiles() {
		if f.device == d {
			f.Fatal()
		}
	}
}

// madFile is a device of management datagrams that a program of a session has open.
type madFile struct {
	*umad.File
	session *session
	device  *device
}

func (n *session) openMAD(d *device) (*madFile, error) {
	// Without the lock: files that are closed meanwhile, to make room, need it.
	opened, err := d.mad.Open(n.tenant.Budget)
	if err != nil {
		return nil, err
	}
	f := &madFile{opened, n, d}
	n.mu.Lock()
	lacks := n.removed.lacks(d)
	if !lacks {
		n.mads[f] = struct{}{}
	}
	n.mu.Unlock()
	if lacks {
		opened.Close()
		return nil, unix.ENODEV
	}
	return f, nil
}

// Close closes the file, and then forgets it.
func (f *madFile) Close() {
	f.File.Close()
	f.session.mu.Lock()
	delete(f.session.mads, f)
	f.session.mu.Unlock()
}

// openMADs lists the open devices of management datagrams of a device.
func (n *session) openMADs(d *device) (list []*madFile) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for f := range n.mads {
		if f.device == d {
			list = append(list, f)
		}
	}
	return list
}
