package segment

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorxe/gorxe/internal/segment/ether"
	"github.com/gorxe/gorxe/rxe"
)

// Receiver gets the frames of a flow rule. It is an *rxe.QP, or stands for several.
type Receiver interface {
	// ReceiveFrame copies the frame, or drops it. It must not block.
	ReceiveFrame(frame []byte, info rxe.FrameInfo)
}

// Choosy is a Receiver that does not take the frames of every sender of its segment.
type Choosy interface{ TakesFrom(sender Receiver) bool }

// Config describes a station.
type Config struct {
	MAC [6]byte
	// MTU is how many bytes a frame may have behind its header; VLAN tags do not count.
	MTU func() int
	// Wake has the device run the inboxes of its queue pairs. It must not block.
	Wake   func()
	Uplink Uplink // to a network; nil: none
	// Counters, if not nil, are those of the device, whose stations come and go.
	Counters *Counters
}

// Uplink is a way to a network.
type Uplink interface {
	Sender
	// Receive has arrive called for each frame that comes, until Close.
	Receive(arrive func(frame []byte))
	// Close ends it. It does not wait for a call of arrive.
	Close()
}

// Station is a device on a segment. It is the rxe.FramePort of the device's queue pairs.
type Station struct {
	segment *Segment
	mac     address
	cfg     Config

	mu    sync.RWMutex // a leaf lock
	flows ether.Table

	Counters *Counters

	users   int    // under Users.mu
	release func() // of Users
}

// Counters count the frames of a station. They only grow.
type Counters struct {
	Sent, Received atomic.Uint64 // a frame counts once, however many queue pairs get it
	TooLong        atomic.Uint64 // not sent: longer than the MTU
	BadSegments    atomic.Uint64 // not sent: no TCP frame that can be cut
	NoFlow         atomic.Uint64 // arrived, and no rule takes it
	// not sent to a network or another process's segment, which was full or down; for each
	NotTaken atomic.Uint64
}

// List returns the counters with their names.
func (c *Counters) List() []rxe.Counter {
	return []rxe.Counter{
		{Name: "raw_sent_frames", Value: c.Sent.Load()}, {Name: "raw_rcvd_frames", Value: c.Received.Load()},
		{Name: "raw_drop_too_long", Value: c.TooLong.Load()}, {Name: "raw_drop_bad_segments", Value: c.BadSegments.Load()},
		{Name: "raw_drop_no_flow", Value: c.NoFlow.Load()}, {Name: "raw_drop_not_taken", Value: c.NotTaken.Load()},
	}
}

// Join makes a station.
func (s *Segment) Join(cfg Config) *Station {
	st := &Station{segment: s, mac: cfg.MAC, cfg: cfg, Counters: cfg.Counters}
	if st.Counters == nil {
		st.Counters = new(Counters)
	}
	s.change(func(m *members) { m.stations = append(m.stations, st) })
	if cfg.Uplink != nil {
		cfg.Uplink.Receive(st.arrive)
	}
	return st
}

// Leave takes the station off its segment.
func (s *Station) Leave() {
	s.segment.change(func(m *members) {
		m.stations = slices.DeleteFunc(m.stations, func(o *Station) bool { return o == s })
	})
	s.segment.forget(s)
	if s.cfg.Uplink != nil {
		s.cfg.Uplink.Close()
	}
}

// MAC returns the address of the station.
func (s *Station) MAC() [6]byte { return s.mac }

// AddFlow adds a rule. Its To is a Receiver.
func (s *Station) AddFlow(r *ether.Rule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flows.Add(r)
}

// RemoveFlow removes a rule. A frame that is on its way may still reach its receiver.
func (s *Station) RemoveFlow(r *ether.Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flows.Remove(r)
}

// sending is what a thread needs that sends frames.
type sending struct {
	from  port
	queue Receiver // the queue pair that sends; it does not get its own frames
	out   *outbox  // nil: the frames go to no other process
}

// SendFrames implements rxe.FramePort. What leaves this process goes in one batch.
func (s *Station) SendFrames(q *rxe.QP, frames []rxe.FrameOut) {
	b := buffers.Get().(*buffer)
	defer b.free()
	b.as = sending{s, q, &b.out}
	for i := range frames {
		s.sendAs(frames[i].Data, frames[i].As, b)
	}
	b.out.flush(s.Counters)
}

// sendAs does with a frame what the work request asks for, and sends it.
func (s *Station) sendAs(frame []byte, how rxe.FrameSend, b *buffer) {
	if how.Flags&rxe.FrameInsertVLAN != 0 {
		frame = ether.AppendVLAN(b.tagged[:0], frame, how.VLAN)
		how.Header += vlanSize
		defer b.out.flush(s.Counters) // the next frame needs the room
	}
	if how.MSS == 0 {
		f := ether.Parse(frame)
		f.SetSums(how.Flags&rxe.FrameL3Sum != 0, how.Flags&rxe.FrameL4Sum != 0)
		s.send(&f, &b.as)
		return
	}
	segments, err := ether.Segments(frame, int(how.Header), int(how.MSS), b.segment[:])
	if err != nil || len(frame)/int(how.MSS) > maxSegments {
		s.Counters.BadSegments.Add(1)
		return
	}
	for piece := range segments {
		f := ether.Parse(piece)
		s.send(&f, &b.as)
		b.out.flush(s.Counters) // the next piece needs the room
	}
}

const vlanSize = 4 // IEEE 802.1Q

// buffer is what SendFrames needs for a frame.
type buffer struct {
	tagged, segment [rxe.MaxFrame + vlanSize]byte
	out             outbox
	as              sending
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() {
	b.as = sending{}
	buffers.Put(b)
}

func (s *Station) send(f *ether.Frame, as *sending) {
	if len(f.Data) > s.cfg.MTU()+HeaderSpace {
		s.Counters.TooLong.Add(1)
		return
	}
	s.Counters.Sent.Add(1)
	s.sniff(f)
	if s.cfg.Uplink != nil {
		as.out.add(s.cfg.Uplink, f.Data)
	}
	s.segment.forward(f, s, as)
}

// sniff gives a frame that the station sends to its flows of type Sniffer.
func (s *Station) sniff(f *ether.Frame) {
	var room [4]ether.Delivery
	s.mu.RLock()
	to := s.flows.Sniff(room[:0])
	s.mu.RUnlock()
	s.deliver(f, to, nil) // the thread that sends runs the inboxes
}

// arrive takes a frame from the uplink.
func (s *Station) arrive(frame []byte) {
	if len(frame) >= ether.HeaderSize {
		f := ether.Parse(frame)
		s.segment.capture(&f)
		if s.receive(&f, nil) {
			s.cfg.Wake()
		}
	}
}

// receive gives a frame to the queue pairs whose rules take it, except to the one that sent it. It
// reports whether there are any: then some thread has to run their inboxes.
func (s *Station) receive(f *ether.Frame, sender Receiver) bool {
	var room [8]ether.Delivery
	s.mu.RLock()
	to, _ := s.flows.Decide(f, room[:0])
	s.mu.RUnlock()
	if len(to) == 0 {
		s.Counters.NoFlow.Add(1)
		return false
	}
	s.Counters.Received.Add(1)
	s.deliver(f, to, sender)
	return true
}

// take is receive for a frame of the segment. The thread that sends runs the inboxes of its own
// device, once for all frames of a post.
func (s *Station) take(f *ether.Frame, as *sending) {
	if s.receive(f, as.queue) && as.from != s {
		s.cfg.Wake()
	}
}

func (s *Station) deliver(f *ether.Frame, to []ether.Delivery, sender Receiver) {
	if len(to) == 0 {
		return
	}
	info := infoOf(f)
	for _, d := range to {
		if d.To == sender {
			continue
		}
		if c, ok := d.To.(Choosy); ok && sender != nil && !c.TakesFrom(sender) {
			continue
		}
		i := info
		if d.Tag != 0 {
			i.Flags |= rxe.FrameTag
			i.Tag = d.Tag
		}
		d.To.(Receiver).ReceiveFrame(f.Data, i)
	}
}

// infoOf is what completions say of a frame.
func infoOf(f *ether.Frame) (i rxe.FrameInfo) {
	ip, l4 := f.Sums()
	if ip {
		i.Flags |= rxe.FrameL3OK
	}
	if l4 {
		i.Flags |= rxe.FrameL4OK
	}
	if f.Tagged {
		i.Flags |= rxe.FrameVLAN
		i.VLAN = f.VLAN
	}
	switch f.Version {
	case 4:
		i.L3 = L3IPv4
	case 6:
		i.L3 = L3IPv6
	}
	if f.L4 != 0 {
		i.L4 = L4UDP
		if f.Proto == ether.ProtoTCP {
			i.L4 = L4TCP
		}
	}
	return i
}

// The types of rxe.FrameInfo, as mlx5 numbers them (enum in mlx5/device.h: CQE_L3_HDR_TYPE_*,
// CQE_L4_HDR_TYPE_*).
const (
	L3IPv6 = 1
	L3IPv4 = 2
	L4TCP  = 1
	L4UDP  = 2
)
