package umad

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/wire"
)

// Read answers read(fd, buf, n): the oldest datagram (user_mad.c: ib_umad_read). One that does
// not fit, or that could not be handed over, stays in the queue.
func (f *File) Read(c kernel.Caller, buf, n uint64) (int64, error) {
	size := f.headerSize()
	if n < uint64(size) {
		return 0, unix.EINVAL
	}
	f.reading.Lock()
	defer f.reading.Unlock()
	f.mu.Lock()
	if f.removed {
		f.mu.Unlock()
		return 0, unix.EIO
	}
	if len(f.queue) == 0 {
		f.mu.Unlock()
		return 0, kernel.ErrWait
	}
	p := f.queue[0]
	f.mu.Unlock()
	total := size + p.size
	if n < uint64(total) {
		return 0, unix.EINVAL
	}
	f.Add(-1)
	f.Sync() // before the answer: after it, poll says what is left
	b := append(slices.Clone(uapi.BytesOf(&p.hdr)[:size]), p.mad[:p.size]...)
	err := c.Write(buf, b)
	if err == nil {
		err = c.Deliver(int64(total))
	}
	if err != nil {
		f.Add(1)
		f.Sync()
		f.ready()
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) > 0 { // the file may be closed by now
		f.queue[0] = nil
		f.queue = f.queue[1:]
		f.budget.Give(packetCost)
	}
	return int64(total), nil
}

// errETIMEDOUT is the status of a datagram that was not answered.
const errETIMEDOUT = uint32(unix.ETIMEDOUT)

// Received implements mad.Handler: it queues (user_mad.c: recv_handler).
func (f *File) Received(a *mad.Agent, d *mad.Datagram) {
	p := &packet{mad: d.MAD, size: wire.MADLen}
	p.hdr.Length = uint32(f.headerSize()) + wire.MADLen
	binary.BigEndian.PutUint32(p.hdr.QPN[:], uint32(d.Src))
	if d.Remote {
		p.hdr.GRHPresent = 1
		p.hdr.GIDIndex, p.hdr.TrafficClass, p.hdr.GID = d.From.SGIDIndex, d.From.TrafficClass, d.From.DGID
		p.hdr.HopLimit = hopLimit
		binary.BigEndian.PutUint32(p.hdr.FlowLabel[:], d.From.FlowLabel)
	}
	f.mu.Lock()
	if len(f.queue) >= maxQueued || f.budget.TakeNow(packetCost) != nil {
		f.dropped++
		f.mu.Unlock()
		return
	}
	f.put(a, p)
	f.mu.Unlock()
	f.SyncAside()
}

// hopLimit is that of an answer.
const hopLimit = 64

// Ended implements mad.Handler: a datagram that was not answered goes back to the program
// (user_mad.c: send_handler).
func (f *File) Ended(a *mad.Agent, context any, timedOut bool) {
	p := context.(*packet)
	f.mu.Lock()
	f.pending--
	if !timedOut {
		f.budget.Give(packetCost)
		f.mu.Unlock()
		return
	}
	p.hdr.Status, p.size = errETIMEDOUT, wire.MADHeaderLen
	f.put(a, p)
	f.mu.Unlock()
	f.SyncAside()
}

// put queues a datagram whose cost is taken, unless its agent has gone. Sync has to follow;
// f.mu is held.
func (f *File) put(a *mad.Agent, p *packet) {
	id := slices.Index(f.agents[:], a)
	if id < 0 || f.closed {
		f.budget.Give(packetCost)
		return
	}
	p.hdr.ID = uint32(id)
	f.queue = append(f.queue, p)
	f.Add(1)
	f.ready()
}
