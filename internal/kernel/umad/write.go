package umad

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// minMAD is the least of a datagram that a write has: both headers (ib_mad.h:
// IB_MGMT_RMPP_HDR).
const minMAD = 36

// Write answers write(fd, buf, n): it sends a datagram (user_mad.c: ib_umad_write). One that is
// shorter than a datagram ends with zeros.
func (f *File) Write(c kernel.Caller, buf, n uint64) (int64, error) {
	size := uint64(f.headerSize())
	if n < size+minMAD {
		return 0, unix.EINVAL
	}
	p := new(packet)
	if err := c.Read(buf, uapi.BytesOf(&p.hdr)[:size]); err != nil {
		return 0, err
	}
	if p.hdr.ID >= maxAgents {
		return 0, unix.EINVAL
	}
	if err := c.Read(buf+size, p.mad[:minMAD]); err != nil {
		return 0, err
	}
	a := f.agent(p.hdr.ID)
	switch {
	case a == nil:
		return 0, unix.EIO
	case n-size > wire.MADLen:
		return 0, unix.EINVAL
	}
	if err := c.Read(buf+size, p.mad[:n-size]); err != nil {
		return 0, err
	}
	if err := f.send(a, p); err != nil {
		return 0, err
	}
	return int64(n), nil
}

// send sends what the program has written.
func (f *File) send(a *mad.Agent, p *packet) error {
	r := requestOf(p)
	if r.Timeout != 0 {
		if err := f.await(); err != nil {
			return err
		}
	}
	err := a.Send(r)
	if err != nil && r.Timeout != 0 {
		f.settle()
	}
	return err
}

// await makes room for a datagram that waits for an answer.
func (f *File) await() error {
	f.budget.MakeRoom(packetCost)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.pending >= maxPending || f.budget.TakeNow(packetCost) != nil {
		return errSpent
	}
	f.pending++
	return nil
}

// settle undoes await.
func (f *File) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending--
	f.budget.Give(packetCost)
}

// requestOf returns what a header asks for. The Q_Key is that of the queue pair, whatever the
// header says, and the service level and the P_Key are those of the only ones.
func requestOf(p *packet) *mad.Request {
	h := &p.hdr
	return &mad.Request{
		MAD: &p.mad,
		GRH: h.GRHPresent != 0,
		To: rxe.AHAttr{
			DGID: h.GID, SGIDIndex: h.GIDIndex, HopLimit: h.HopLimit, TrafficClass: h.TrafficClass, PortNum: 1,
			FlowLabel: binary.BigEndian.Uint32(h.FlowLabel[:]) & (1<<20 - 1),
		},
		Dest:    wire.QPN(binary.BigEndian.Uint32(h.QPN[:])) & wire.QPNMask,
		LID:     binary.BigEndian.Uint16(h.LID[:]),
		Timeout: timeout(h.TimeoutMS), Retries: h.Retries,
		Context: p,
	}
}

// timeout returns a time of the ABI. Negative ones, as the kernel takes them, never end.
func timeout(ms uint32) time.Duration {
	if ms >= 1<<31 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
