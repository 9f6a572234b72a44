package sanitize

import (
	"fmt"
	"slices"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// settings are the attributes of a queue pair that its peer's have to fit.
type settings struct {
	dest         wire.QPN
	rqPSN, sqPSN wire.PSN
	reads, takes uint8 // max_rd_atomic and max_dest_rd_atomic
	rtr, rts     bool  // dest and rqPSN, and sqPSN, are set
	compared     bool
	since        int      // step of the session in which rtr was set
	host         wire.GID // of the peer
}

// Modified notes that the program has changed a queue pair.
func (f *File) Modified(q *rxe.QP, attr *rxe.QPAttr, mask rxe.QPAttrMask, at *Stack) {
	f.look(at)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.byQP[q]
	if o == nil {
		return
	}
	o.modified = at
	if mask&rxe.QPAttrState != 0 && (attr.State == rxe.QPReset || attr.State == rxe.QPErr) {
		f.drop(o)
		f.forget(o)
	}
	o.set(attr, mask)
	if mask&rxe.QPAttrQKey != 0 {
		o.qkey.keyed(attr.QKey, at)
	}
	f.connects(o, mask)
	places := []Place{{What: "the queue pair was modified", Stack: at}, {What: "it was made", Stack: o.made}}
	find := func(check, what string) {
		f.find(check, Finding{What: fmt.Sprintf("%s has %s", o, what), Objects: []string{o.name()}, Places: places})
	}
	if mask&rxe.QPAttrTimeout != 0 && attr.Timeout == 0 {
		find(timeoutZero, "timeout 0: it waits for ever for the answer to a packet that was lost")
	}
	if mask&rxe.QPAttrRetryCnt != 0 && attr.RetryCnt == 0 {
		find(retryZero, "retry_cnt 0: it fails when the first packet is lost"+f.chosenBy("retry_count", "rdma_connect"))
	}
	if mask&rxe.QPAttrRNRRetry != 0 && attr.RNRRetry == 0 {
		find(rnrRetryZero, "rnr_retry 0: it fails when its peer has no receive for a message"+f.chosenBy("rnr_retry_count", "its peer's rdma_accept or rdma_connect"))
	}
	if mask&rxe.QPAttrMinRNRTimer != 0 && attr.MinRNRTimer == 0 && !f.s.connecting[f.pid] {
		find(rnrTimerZero, "min_rnr_timer 0, the longest: a sender whose message finds no receive waits for 655 ms")
	}
	if dgid := attr.AH.DGID.Addr(); mask&rxe.QPAttrAV != 0 && dgid.IsLinkLocalUnicast() {
		find(gidLinkLocal, fmt.Sprintf("a path to %v, which is link-local: no router forwards its packets", dgid))
	}
}

// chosenBy says where RDMA CM has an attribute from, if the process uses that: the line that
// modifies the queue pair does not name it.
func (f *File) chosenBy(param, call string) string {
	if !f.s.connecting[f.pid] {
		return ""
	}
	return fmt.Sprintf("; RDMA CM takes this from the %s of %s", param, call)
}

// set notes what the peer's attributes have to fit.
func (o *object) set(attr *rxe.QPAttr, mask rxe.QPAttrMask) {
	s := &o.settings
	if mask&rxe.QPAttrState != 0 && attr.State == rxe.QPReset {
		*s = settings{}
		o.fresh = o.file.s.step()
	}
	if mask&rxe.QPAttrDestQPN != 0 && mask&rxe.QPAttrRQPSN != 0 {
		s.dest, s.rqPSN, s.rtr, s.since = attr.DestQPN, attr.RQPSN, true, o.file.s.step()
	}
	if mask&rxe.QPAttrAV != 0 {
		s.host = attr.AH.DGID
	}
	if mask&rxe.QPAttrMaxRdAtomic != 0 {
		s.reads = attr.MaxRdAtomic
	}
	if mask&rxe.QPAttrMaxDestRdAtomic != 0 {
		s.takes = attr.MaxDestRdAtomic
	}
	if mask&rxe.QPAttrSQPSN != 0 {
		s.sqPSN, s.rts = attr.SQPSN, true
	}
}

// connected compares the attributes of the two ends when one of them posts. s.mu is held.
func (f *File) connected(o *object, p *post) {
	s := &o.settings
	if !s.rtr || !s.rts {
		return
	}
	peer := f.s.qps[qpName{f.device, s.dest}]
	if peer == nil || peer.settings.dest != wire.QPN(o.Number) || !peer.settings.rtr || peer.settings.since < o.fresh {
		return // or it is still connected to what was here before, and will be modified
	}
	find := func(check, what string) {
		f.find(check, Finding{
			What: what, Objects: []string{o.name(), peer.name()},
			Places: slices.Concat([]Place{{What: fmt.Sprintf("the %v (wr_id %#x) was posted", p.op, p.id), Stack: p.at}},
				o.history("the queue pair was made"), peer.history("the peer's queue pair was made")),
		})
	}
	if !s.compared && s.sqPSN != peer.settings.rqPSN {
		find(psnMismatch, fmt.Sprintf("%s begins with PSN %#06x (sq_psn), and %s expects %#06x (rq_psn): the peer takes no packet",
			o, uint32(s.sqPSN), peer, uint32(peer.settings.rqPSN)))
	}
	s.compared = true
	if takes := peer.settings.takes; returns(p.op) && s.reads > takes && o.reads() > int(takes) {
		find(rdAtomic, fmt.Sprintf("%s has %d READs and atomics under way (max_rd_atomic %d), and %s takes %d at once (max_dest_rd_atomic)",
			o, o.reads(), s.reads, peer, takes))
	}
}

// step counts. s.mu is held.
func (s *Session) step() int {
	s.steps++
	return s.steps
}

// reads is how many READs and atomics of a queue pair are under way.
func (o *object) reads() (n int) {
	for _, p := range o.posts {
		if returns(p.op) && p.watched() {
			n++
		}
	}
	return n
}
