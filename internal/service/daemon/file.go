package daemon

import (
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
	"github.com/gorxe/gorxe/internal/trap"
)

// file is a device that a program of a session has open.
type file struct {
	*uverbs.File
	session *session
	device  *device
	who     trap.Credentials
	reports *fileReports
}

// Close releases the program's objects, and then forgets the file. So the status always has
// the objects that still exist.
func (f *file) Close() {
	f.session.reports.leave(f)
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
