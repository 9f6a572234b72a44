package eventfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Send gives the program a record. A QP may be locked.
func (p *Pipe) Send(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if e.Key != nil {
		p.sent[e.Key] = sentEvents{p.sent[e.Key].n + 1, e.handle()}
	}
	if p.busy || p.waiter != nil { // that thread sends it
		p.backlog.add(e)
		return
	}
	defer p.budget.LeaveInline()
	if !p.budget.EnterInline() {
		p.backlog.add(e)
		p.awaitRoom()
		return
	}
	if p.backlog.empty() {
		copy(p.buf[:], e.Record[:p.size])
		p.enter()
		err := p.write(p.buf[:p.size])
		p.leave()
		if err == unix.EAGAIN {
			p.backlog.addFirst(e)
		}
	} else {
		p.backlog.add(e)
	}
	p.flush()
}

// SendAsync gives the program a record from a goroutine of its own. It is for a caller
// that has other programs to tell.
func (p *Pipe) SendAsync(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.backlog.add(e)
	if !p.busy {
		p.awaitRoom()
	}
}

// write puts all of b into the pipe, or nothing: EAGAIN if there is no room, EPIPE if
// there is no reader.
func (p *Pipe) write(b []byte) error {
	for {
		if _, err := unix.Write(p.w, b); err != unix.EINTR {
			return err
		}
	}
}

// flush sends the backlog and reports whether all of it went. The caller holds
// p.mu, and no thread is busy.
func (p *Pipe) flush() bool {
	for !p.closed && !p.backlog.empty() {
		n := p.backlog.encode(p.buf[:], p.size)
		p.enter()
		err := p.write(p.buf[:n])
		p.leave()
		switch err {
		case nil:
			p.backlog.remove(n / p.size)
		case unix.EAGAIN:
			p.awaitRoom()
			return false
		default:
			p.backlog = backlog{} // no reader is left
		}
	}
	return true
}

// awaitRoom starts a goroutine that flushes the backlog, now and when the program has
// made room. If that fails, the next event tries again.
func (p *Pipe) awaitRoom() {
	if p.waiter != nil {
		return
	}
	fd, err := unix.FcntlInt(uintptr(p.w), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	p.waiter = os.NewFile(uintptr(fd), "event pipe")
	go p.flushWhenRoom(p.waiter)
}

func (p *Pipe) flushWhenRoom(f *os.File) {
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Write(func(uintptr) bool {
			if !p.budget.EnterWriter(p.done) {
				return true
			}
			defer p.budget.LeaveWriter()
			p.mu.Lock()
			defer p.mu.Unlock()
			for p.busy && !p.closed {
				p.idle.Wait()
			}
			if !p.closed && !p.flush() {
				return false
			}
			p.waiter = nil // under the lock that found nothing left
			return true
		})
	}
	_ = f.Close() // a duplicate
	if err != nil {
		p.mu.Lock()
		p.waiter = nil
		p.mu.Unlock()
	}
}
