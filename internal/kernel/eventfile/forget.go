package eventfile

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// Forget takes back the events about key that the program has not read, and returns how many it has
// read, and how many not. It waits for the thread that is in a system call on the pipe, so only the
// program's own requests may call it.
//
// Records in the pipe tell objects apart by their handle, which the program
// chose. If it gave two objects the same handle, both lose their events.
func (p *Pipe) Forget(key any) (reported, unread uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy && !p.closed {
		p.idle.Wait()
	}
	if p.closed {
		return 0, 0
	}
	sent := p.sent[key]
	delete(p.sent, key)
	unread = p.backlog.drop(key)
	if sent.n <= unread {
		return 0, sent.n
	}
	p.enter()
	dropped, rest := p.takeBack(sent.handle)
	p.leave()
	for i := len(rest); i > 0; i -= p.size { // records that no longer fit
		e := Event{}
		copy(e.Record[:], rest[i-p.size:i])
		e.Key = p.keyOf(e.handle())
		p.backlog.addFirst(e)
	}
	p.flush() // the backlog may fit now
	unread = min(unread+dropped, sent.n)
	return sent.n - unread, unread
}

// takeBack reads the pipe empty and writes back, in order, all but the records
// with the handle. It returns how many those were, and the records that no longer fit.
func (p *Pipe) takeBack(handle uint64) (dropped uint32, rest []byte) {
	all := p.drain()
	// A program that read part of a record gets the rest of it first.
	torn := len(all) % p.size
	keep := all[:torn]
	for all = all[torn:]; len(all) > 0; all = all[p.size:] {
		if binary.NativeEndian.Uint64(all) == handle {
			dropped++
		} else {
			keep = append(keep, all[:p.size]...)
		}
	}
	for len(keep) > 0 {
		n := min(len(keep), pipeBuf)
		if p.write(keep[:n]) != nil {
			return dropped, keep[len(keep)%p.size:]
		}
		keep = keep[n:]
	}
	return dropped, nil
}

// reopen opens a reading end of the pipe with the writing end w. It does not block.
func reopen(w int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(w), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

func (p *Pipe) drain() []byte {
	r, err := reopen(p.w)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(r) }() // nothing to be written back
	var all []byte
	for buf := make([]byte, drainBytes); len(all) < maxPipe; {
		n, err := unix.Read(r, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		all = append(all, buf[:n]...)
	}
	return all
}

// keyOf returns the object with the handle, or nil.
func (p *Pipe) keyOf(handle uint64) any {
	for k, s := range p.sent {
		if s.handle == handle {
			return k
		}
	}
	return nil
}
