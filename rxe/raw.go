package rxe

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/gorxe/gorxe/wire"
)

// Queue pairs for raw packets send and receive whole Ethernet frames, from the destination address
// to the end of the payload. The engine does not look at the headers: a FramePort carries a frame,
// and does what the work request asks for, such as checksums. It gives frames that arrive to
// QP.ReceiveFrame.

// FramePort carries frames.
type FramePort interface {
	// SendFrames sends frames of q, in order, which are the caller's again when it returns. It may
	// change them. A frame that cannot be sent is lost. q is locked: it must not block, and may
	// call ReceiveFrame and Wake.
	SendFrames(q *QP, frames []FrameOut)
}

// FrameOut is a frame that a port is to send.
type FrameOut struct {
	Data []byte
	As   FrameSend
}

// FrameInit is what CreateQP has to know of a QPRaw.
type FrameInit struct {
	Port FramePort
	// StripVLAN: the tag of a frame is in its completion, and not in its buffer
	// (IBV_QP_CREATE_CVLAN_STRIPPING).
	StripVLAN bool
	// ScatterFCS: four bytes of check sequence follow a frame in its buffer
	// (IBV_QP_CREATE_SCATTER_FCS).
	ScatterFCS bool
}

// FrameSend is what a port does with a frame before it is sent.
type FrameSend struct {
	Flags  FrameSendFlags
	VLAN   uint16 // priority and number, for FrameInsertVLAN
	MSS    uint16 // not 0: the payload is cut into TCP segments of at most so many bytes
	Header uint16 // bytes before that payload
}

// FrameSendFlags are bits of FrameSend.
type FrameSendFlags uint16

const (
	FrameL3Sum      FrameSendFlags = 1 << iota // computes the checksum of the IPv4 header
	FrameL4Sum                                 // computes that of TCP or UDP
	FrameInsertVLAN                            // inserts an 802.1Q tag
)

// Word is the value that SendWR.RemoteAddr has for a QPRaw.
func (f FrameSend) Word() (w uint64) {
	for _, part := range [...]uint16{uint16(f.Flags), f.VLAN, f.MSS, f.Header} {
		w = w<<wordPart | uint64(part)
	}
	return w
}

// FrameSendOf undoes Word.
func FrameSendOf(w uint64) (f FrameSend) {
	for _, part := range [...]*uint16{&f.Header, &f.MSS, &f.VLAN, (*uint16)(&f.Flags)} {
		*part = uint16(w)
		w >>= wordPart
	}
	return f
}

// FrameInfo is what a completion says of a received frame.
type FrameInfo struct {
	Flags  FrameFlags
	L3, L4 uint8  // the types of the headers, as the port numbers them
	VLAN   uint16 // priority and number, with FrameVLAN
	Tag    uint32 // of the flow that matched, with FrameTag
	Hash   uint32 // that chose the queue, with FrameHash
}

// FrameFlags are bits of FrameInfo.
type FrameFlags uint8

const (
	// there is an IP header; the checksum of an IPv4 header is right
	FrameL3OK FrameFlags = 1 << iota
	FrameL4OK            // there is a TCP or UDP header with the right checksum
	FrameVLAN            // there is an 802.1Q tag; of a completion: it has been removed
	FrameTag
	FrameHash
)

// The bits of WC.SL that hold parts of a FrameInfo. Of the types four values exist.
const (
	frameTypeBits = 2
	frameTypeMask = 1<<frameTypeBits - 1
)

// FramePort returns the port of a QPRaw. It takes no lock.
func (q *QP) FramePort() FramePort {
	if f := q.facts.frames; f != nil {
		return f.Port
	}
	return nil
}

// put enters the information into a completion, in fields that mean nothing for a frame.
func (f *FrameInfo) put(wc *WC) {
	wc.SL = f.L4&frameTypeMask<<frameTypeBits | f.L3&frameTypeMask
	wc.PKeyIndex, wc.SRQN, wc.SrcQP, wc.Imm = f.VLAN, f.Tag, wire.QPN(f.Flags), f.Hash
	if f.Flags&(FrameL3OK|FrameL4OK) == FrameL3OK|FrameL4OK {
		wc.Flags |= WCIPCsumOK
	}
}

// Frame returns what a completion says of the frame that a QPRaw has received.
func (wc *WC) Frame() FrameInfo {
	return FrameInfo{Flags: FrameFlags(wc.SrcQP), L3: wc.SL & frameTypeMask, L4: wc.SL >> frameTypeBits & frameTypeMask,
		VLAN: wc.PKeyIndex, Tag: wc.SRQN, Hash: wc.Imm}
}

func (a *QPInitAttr) checkRaw(op string) error {
	if a.Frames == nil || a.Frames.Port == nil {
		return &OpError{Op: op, Arg: "qp_type", Why: "no port carries raw frames", Err: ErrNotSupported}
	}
	a.Chaos = nil // nothing promises when a frame arrives
	return nil
}

// checkFrame is checkSend for a QPRaw; n is the length.
func checkFrame(op string, wr *SendWR, n uint64) error {
	as := FrameSendOf(wr.RemoteAddr)
	switch {
	case n < MinFrame:
		return invalid(op, "sg_list", "a frame has an Ethernet header of 14 bytes", "send the whole frame")
	case n > MaxFrame:
		return tooBig(op, "sg_list", n, "exceeds the longest frame", MaxFrame)
	case as.MSS != 0 && (as.Header < MinFrame || uint64(as.Header) >= n):
		return invalid(op, "tso.hdr_sz", "is no part of the frame", "give the bytes before the payload of TCP")
	}
	return nil
}

// sendFrame executes the next work requests of a QPRaw, as many as one ReadV is worth.
func (q *QP) sendFrame(st *step) hold {
	item := newItem(MaxFrame)
	defer item.free()
	frames, room := 1, item.store
	if q.dev.cfg.CostlyMemory {
		frames = framesAtOnce
	}
	for ; ; frames = 1 {
		n, err := q.readFrames(frames, room, st)
		switch {
		case err == nil:
			q.passFrames(n, room, st)
			return goOn
		case frames == 1 || n == 1:
			q.blameMemory()
			q.sq.at(q.send.cur).status = WCLocProtErr
			return holdFailed
		}
	}
}

// readFrames reads the frames of at most so many work requests into b, one behind the other. It
// returns how many these were.
func (q *QP) readFrames(most int, b []byte, st *step) (n int, err error) {
	for n < most && q.send.cur+uint32(n) != q.sq.prod {
		wqe := q.sq.at(q.send.cur + uint32(n))
		if n > 0 && (wqe.status != WCSuccess || wqe.isLocalOp() || int(wqe.length) > len(b)) {
			break
		}
		n++
		frame := b[:wqe.length]
		b = b[wqe.length:]
		rest := frame[copy(frame, wqe.inline):] // of memory
		if from := (cursor{}); len(rest) > 0 && !st.in.cover(q, wqe.sgl, &from, rest, 0) {
			st.in.drop()
			return n, errRefused
		}
	}
	return n, st.in.read()
}

// passFrames sends the frames of n work requests, which have been read into b.
func (q *QP) passFrames(n int, b []byte, st *step) {
	st.frames = st.frames[:0]
	for i := range n {
		wqe := q.sq.at(q.send.cur + uint32(i))
		st.frames = append(st.frames, FrameOut{b[:wqe.length], FrameSendOf(wqe.remoteAddr)})
		b = b[wqe.length:]
	}
	q.facts.frames.Port.SendFrames(q, st.frames)
	clear(st.frames)
	for range n {
		wqe := q.sq.at(q.send.cur)
		q.countSent(1, int(wqe.length), st)
		q.dev.counters.RDMASends.Add(1)
		wqe.started, wqe.done = true, true
		q.send.cur++
	}
}

// ReceiveFrame gives a copy of a frame to the queue pair, or drops and counts it. It does not wait
// for a thread that has locked the QP. Afterwards some thread has to call Device.Deliver or Wake.
func (q *QP) ReceiveFrame(frame []byte, info FrameInfo) {
	if len(frame) < MinFrame || len(frame) > MaxFrame {
		q.dev.counters.BadLength.Add(1)
		return
	}
	f := q.facts.frames
	item := newItem(len(frame) + fcsSize)
	item.frame, item.counted = info, false
	head := len(frame)
	if f.StripVLAN && info.Flags&FrameVLAN != 0 && len(frame) >= MinFrame+vlanSize {
		head = vlanAt
	} else { // as DPDK reads it: what completes with a tag has none
		item.frame.Flags &^= FrameVLAN
	}
	item.buf = append(item.buf, frame[:head]...)
	if head < len(frame) {
		item.buf = append(item.buf, frame[head+vlanSize:]...)
	}
	if f.ScatterFCS {
		item.buf = binary.LittleEndian.AppendUint32(item.buf, crc32.ChecksumIEEE(frame))
	}
	item.ends = append(item.ends, int32(len(item.buf)))
	q.enqueue(item)
}

// unpackFrame handles a frame. The caller has locked the QP.
func (q *QP) unpackFrame(item *inboxItem, st *step) {
	c := &q.dev.counters
	if q.dead || q.attr.State < QPRTR || q.attr.State == QPErr {
		c.BadState.Add(1)
		q.tallies.stats.Dropped.Add(1)
		return
	}
	q.tallies.rx.packets++
	q.tallies.rx.bytes += uint64(len(item.buf))
	r := &q.resp
	if f := r.receiveFrame(q, item, st); f != faultNone && q.attr.State != QPErr {
		q.countDropped(f)
		if faultRules[f].ownSide {
			r.pend.batch.cutPart()
			if r.flushPayload(q, st) { // of the frames before
				r.terminate(q, f, 0, 0, st)
			}
		}
	}
}

// receiveFrame puts a frame into the next receive work request.
func (r *responder) receiveFrame(q *QP, item *inboxItem, st *step) fault {
	if q.withholdsReceive() {
		return faultNoRecv
	}
	if ring, ok := q.rq.(PartRing); ok {
		if f := r.takePart(q, ring, len(item.buf), st); f != faultNone {
			return f
		}
	} else if f := r.getRecvWQE(q); f != faultNone {
		return f
	}
	if uint64(len(item.buf)) > r.recv.capacity {
		return faultRecvShort // dropped; the buffer stays for the next frame
	}
	if f := r.scatter(q, item.buf, st); f != faultNone {
		return f
	}
	later := q.placesTogether() && len(r.pend.batch.spans) > 0
	if !later && !r.flushPayload(q, st) {
		return faultRecvAccess
	}
	r.wc = WC{ID: r.recv.wqe.ID, Opcode: WCRecv, ByteLen: uint32(len(item.buf)), QPN: q.qpn}
	if f := r.recvFault(q, WCRecv); f != faultNone {
		return f
	}
	item.frame.put(&r.wc)
	r.recv.hasWQE = false
	if later { // the item lives until the visit ends
		r.pend.batch.endPart()
		r.delivered = append(r.delivered, delivery{wc: r.wc})
		return faultNone
	}
	if !r.push(q, &r.wc, false) {
		return faultOverflow
	}
	return faultNone
}

// takePart is getRecvWQE for a frame of n bytes, which takes a part of a request. A rest that is
// too short completes first.
func (r *responder) takePart(q *QP, ring PartRing, n int, st *step) fault {
	recv := &r.recv
	for {
		switch ring.PopPart(n, &recv.wqe) {
		case PartTaken:
			recv.hasWQE = true
			recv.measure()
			return faultNone
		case PartRest:
			if !r.flushPayload(q, st) { // of the frames before
				return faultRecvAccess
			}
			if !q.pushRecv(&WC{ID: recv.wqe.ID, Opcode: WCRecv, QPN: q.qpn}, false) {
				return faultOverflow
			}
		case PartTooLong:
			return faultRecvShort
		case PartBad:
			recv.hasWQE = true
			return faultRecvMalformed
		default:
			return faultNoRecv
		}
	}
}
