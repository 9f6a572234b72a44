package mlx5

import "github.com/gorxe/gorxe/rxe"

// A striding receive queue has requests for many frames (MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ). A
// frame begins with a stride of its request, and takes as many as it needs. It never continues in
// the next request: strides that are too few for it complete as a filler.

// strides is rxe.PartRing.
type strides struct {
	queue *recvQueue
	log   uint8  // of a stride's bytes
	all   uint32 // strides of a request
	shift uint32 // bytes before a frame in its first stride

	seen uint32 // of queue.resets
	left uint32 // strides of request
	// request is the request at hand, from its first stride on.
	request rxe.RecvWQE
	at      cut
}

// cut is a place in a list.
type cut struct {
	piece int
	off   uint32
}

// newStrides checks what a private request says of strides (mlx5_ib: prepare_user_rq).
func newStrides(req *CreateWQReq, queue *recvQueue) (*strides, error) {
	switch {
	case req.SingleStrideLogBytes < leastStrideLog || req.SingleStrideLogBytes > mostStrideLog:
		return nil, refuse("single_stride_log_num_of_bytes", "is out of range", "use the striding_rq_caps of mlx5dv_query_device")
	case req.SingleWQELogStrides < leastStridesLog || req.SingleWQELogStrides > mostStridesLog:
		return nil, refuse("single_wqe_log_num_of_strides", "is out of range", "use the striding_rq_caps of mlx5dv_query_device")
	}
	s := &strides{queue: queue, log: uint8(req.SingleStrideLogBytes), all: 1 << req.SingleWQELogStrides}
	if req.TwoByteShiftEn != 0 {
		s.shift = twoByteShift
	}
	queue.prefix = nextSize
	return s, nil
}

// Pop implements rxe.RecvRing: what is left of a request counts as one.
func (s *strides) Pop(w *rxe.RecvWQE) (ok, bad bool) {
	if s.begin(); s.left == 0 {
		if ok, bad = s.next(); !ok {
			return false, false
		}
	}
	s.take(w, s.left, 0)
	w.ID = s.request.ID
	return true, bad
}

// PopPart implements rxe.PartRing.
func (s *strides) PopPart(n int, w *rxe.RecvWQE) rxe.Part {
	need := (uint64(n) + uint64(s.shift) + 1<<s.log - 1) >> s.log
	if need > uint64(s.all) || n > longestFrame {
		return rxe.PartTooLong
	}
	if s.begin(); s.left == 0 {
		switch ok, bad := s.next(); {
		case !ok:
			return rxe.PartNone
		case bad:
			s.left = 0
			w.ID, w.SGL = s.request.ID, w.SGL[:0]
			return rxe.PartBad
		}
	}
	if uint32(need) > s.left {
		s.take(w, s.left, 0)
		w.ID |= idFiller
		w.SGL = w.SGL[:0]
		return rxe.PartRest
	}
	s.take(w, uint32(need), s.shift)
	return rxe.PartTaken
}

// begin forgets the request at hand when the queue was reset.
func (s *strides) begin() {
	if n := s.queue.resets.Load(); n != s.seen {
		s.seen, s.left = n, 0
	}
}

// next takes the next request. A request that has no room for its strides is bad.
func (s *strides) next() (ok, bad bool) {
	if ok, bad = s.queue.Pop(&s.request); !ok {
		return false, false
	}
	var total uint64
	for _, e := range s.request.SGL {
		total += uint64(e.Length)
	}
	s.left, s.at = s.all, cut{}
	return true, bad || total < uint64(s.all)<<s.log
}

// take moves n strides into w, without the first skip bytes.
func (s *strides) take(w *rxe.RecvWQE, n, skip uint32) {
	w.ID = partID(wrID(s.request.ID).counter(), uint16(s.all-s.left), uint16(n), n == s.left)
	w.SGL = w.SGL[:0]
	for left := n << s.log; left > 0 && s.at.piece < len(s.request.SGL); {
		e := s.request.SGL[s.at.piece]
		e.Addr, e.Length = e.Addr+uint64(s.at.off), min(e.Length-s.at.off, left)
		left -= e.Length
		if s.at.off += e.Length; s.at.off == s.request.SGL[s.at.piece].Length {
			s.at = cut{piece: s.at.piece + 1}
		}
		before := min(skip, e.Length)
		skip -= before
		if e.Addr, e.Length = e.Addr+uint64(before), e.Length-before; e.Length > 0 {
			w.SGL = append(w.SGL, e)
		}
	}
	s.left -= n
}
