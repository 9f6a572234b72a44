package daemon

import (
	"github.com/gorxe/gorxe/internal/interpose"
	"github.com/gorxe/gorxe/internal/kernel/uverbs"
)

// file is a device that a program of a session has open.
type file struct {
	*uverbs.File
	session *session
	device  *device
	who     interpose.Credentials
}

// Close releases what the program had made, and then forgets the file: the
// status never lacks what still exists.
func (f *file) Close() {
	f.File.Close()
	if f.Overrun() {
		f.warn() // in time for the keeper to hear of it
	}
	f.session.mu.Lock()
	delete(f.session.files, f)
	f.session.mu.Unlock()
}
