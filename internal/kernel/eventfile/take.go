package eventfile

import "golang.org/x/sys/unix"

// Poll returns the writing end. poll(2) reports POLLERR on it when the program has closed
// the last of its descriptors. It stays the Pipe's, and open until Close.
func (p *Pipe) Poll() int { return p.w }

// Take takes back the oldest record that the program has not read, and reports whether
// there was one. A file whose records are read by another call than read(2) uses it: the
// pipe then only says to poll(2) how many records wait. As Forget it is for the program's
// own requests.
func (p *Pipe) Take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy && !p.closed {
		p.idle.Wait()
	}
	if p.closed {
		return false
	}
	var record [maxEventSize]byte
	p.enter()
	n := 0
	if r, err := p.reopen(); err == nil {
		for n, err = unix.Read(r, record[:p.size]); err == unix.EINTR; {
			n, err = unix.Read(r, record[:p.size])
		}
		_ = unix.Close(r) // nothing to be written back
	}
	p.leave()
	p.flush() // there may be room for what waited
	return n > 0
}
