package sanitize

// CMEnd is one end of a connection of RDMA CM: a host's address and the number of a queue pair
// there, 0 if it is not known.
type CMEnd struct {
	Host   string
	Number uint32
}

// Told notes that the process is about to tell its peer something by RDMA CM. from is its own end.
func (f *File) Told(from CMEnd) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	by := f.s.processes[f.pid]
	if !f.s.races || by == nil {
		return
	}
	f.s.look(by)
	if _, known := f.s.told[from]; from.Number != 0 && (known || len(f.s.told) < maxTold) {
		f.s.told[from] = by.keep()
	}
}

// Heard notes that the process is about to read an event of RDMA CM that tells what its peer knew.
// If the peer's end is not known, or not of this run, the event may tell what anybody knows.
func (f *File) Heard(from CMEnd) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	by := f.s.processes[f.pid]
	if !f.s.races || by == nil {
		return
	}
	knew, known := f.s.told[from]
	f.s.hear(by, &news{slot: -1, more: knew, all: !known})
}
