package sanitize

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Failed implements rxe.Reports: work of a queue pair failed.
func (f *File) Failed(q *rxe.QP, failure *rxe.Failure) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	o := f.byQP[q]
	if o == nil {
		return
	}
	w := &work{file: f, qp: o, failure: failure, peer: f.s.qps[qpName{f.device, failure.PeerQPN}]}
	if find := finders[failure.Cause]; find != nil {
		find(w)
	}
}

// finders are the checks that a failure answers. The other causes may be those of a program that is
// right: its peer has ended, or the network loses packets.
var finders = [rxe.NumCauses]func(*work){
	rxe.CauseKey: (*work).key, rxe.CauseRemoteKey: (*work).key, rxe.CauseNAK: (*work).nak, rxe.CauseRNR: (*work).rnr,
	rxe.CauseMemory: (*work).memory, rxe.CauseRecvShort: (*work).short, rxe.CauseCQFull: (*work).overflow,
	rxe.CauseQPAccess: (*work).access, rxe.CauseDepth: (*work).depth, rxe.CauseMTU: (*work).mtu,
	rxe.CauseWindow: (*work).window, rxe.CauseInvalidate: (*work).invalidate,
	rxe.CauseMalformed: (*work).malformed, rxe.CauseMisaligned: (*work).misaligned,
	rxe.CauseQKey: (*work).qkey,
}

// work is what failed. Session.mu is held.
type work struct {
	file    *File
	qp      *object
	failure *rxe.Failure
	peer    *object  // the other end, if it is of this run
	drawing []string // of the memory in question; nil: none
}

// own reports whether a request of the queue pair's own send queue failed.
func (w *work) own() bool { return w.failure.Status != rxe.WCSuccess && !w.failure.Recv }

// asked names the request that was refused, as the subject of a sentence, and where it was posted.
func (w *work) asked() (subject string, places []Place) {
	fl := w.failure
	if w.own() {
		p := w.qp.request(fl.ID)
		return fmt.Sprintf("%s (wr_id %#x) of %s", an(fl.Op), fl.ID, w.qp), posted(p)
	}
	if fl.Recv && fl.Cause == rxe.CauseKey {
		return fmt.Sprintf("a receive (wr_id %#x) of %s", fl.ID, w.qp), nil
	}
	switch {
	case w.peer != nil:
	case fl.Peer == wire.GID{} && fl.Cause == rxe.CauseKey: // of a datagram
		return fmt.Sprintf("a receive of %s", w.qp), w.qp.history("the queue pair was made")
	case fl.Peer == wire.GID{}:
		return fmt.Sprintf("a datagram to %s", w.qp), w.qp.history("the queue pair was made")
	default:
		return fmt.Sprintf("the peer %v of %s", fl.Peer.Addr(), w.qp), nil
	}
	return fmt.Sprintf("a request of %s to %s", w.peer, w.qp), posted(w.peer.asker(fl.Key.Key, fl.Key.Addr, fl.Key.Length))
}

// an returns the name of an operation with an article.
func an(op rxe.WROpcode) string {
	name := op.String()
	if strings.ContainsAny(name[:1], "AR") { // as they are spoken: an RDMA_WRITE
		return "an " + name
	}
	return "a " + name
}

func posted(p *post) []Place {
	if p == nil {
		return nil
	}
	return []Place{{What: fmt.Sprintf("the %v (wr_id %#x) was posted", p.op, p.id), Stack: p.at}}
}

// request returns the work request of an id; nil: it is not known.
func (o *object) request(id uint64) *post {
	for _, p := range o.posts {
		if p.id == id && p.watched() {
			return p
		}
	}
	return nil
}

// asker returns the work request that named a range of a key. Without a key, it is the oldest.
func (o *object) asker(key uint32, va, n uint64) *post {
	if key == 0 && len(o.posts) > 0 && o.posts[0].watched() {
		return o.posts[0]
	}
	for _, p := range o.posts {
		if p.watched() && p.rkey == key && va >= p.remote {
			return p
		}
	}
	return nil
}

func (w *work) find(check, what string, places ...[]Place) {
	psn := uint32(w.failure.PSN)
	objects := []string{w.qp.name()}
	if o := w.file.region(w.failure.Key.Key); o != nil && w.failure.Key.Why != "" {
		objects = append(objects, o.name())
	}
	w.file.find(check, Finding{What: what, Objects: objects, Places: slices.Concat(places...), Drawing: w.drawing, PSN: &psn})
}

// refused finds that a request is what the rest of the sentence says.
func (w *work) refused(check, rest string) {
	subject, places := w.asked()
	w.find(check, subject+rest, places, w.qp.history("the queue pair was made"))
}

// history says where an object came from, and where it was changed.
func (o *object) history(what string) (places []Place) {
	places = []Place{{What: what, Stack: o.made}}
	if o.modified != nil {
		places = append(places, Place{What: "it was changed last", Stack: o.modified})
	}
	return places
}

// key finds what is wrong with a key that gives no access.
func (w *work) key() {
	k := &w.failure.Key
	subject, places := w.asked()
	what := fmt.Sprintf("%s names %s at %#x of key %#x", subject, plural.Of(k.Length, "byte"), k.Addr, k.Key)
	region := w.file.region(k.Key)
	switch {
	case strings.Contains(k.Why, "window"):
		w.find(keyWindow, what+": "+k.Why, places)
	case strings.Contains(k.Why, "no such"), strings.Contains(k.Why, "stale"):
		w.unknown(what, places)
	case region == nil && w.file.windows && w.file.s.unseen == 0 && k.Why != "":
		w.find(keyWindow, what+", a window: "+k.Why, places)
	case region == nil: // there was no room to watch it
	case strings.Contains(k.Why, "domain"):
		domain := ", which is of another protection domain than the queue pair"
		if w.peer != nil && region.file == w.peer.file && region.file != w.file {
			domain = ", which is the requester's own and not of its peer"
		}
		w.find(keyDomain, what+domain,
			places, region.history("the region was registered"), w.qp.history("the queue pair was made"))
	case strings.Contains(k.Why, "right"):
		w.find(keyRight, what+", which lacks "+rights(k.Need), places, region.history("the region was registered"))
	case strings.Contains(k.Why, "range"):
		var distance string
		distance, w.drawing = region.Region.beyond(k.Addr, k.Length)
		w.find(keyRange, what+", "+distance+w.whose(k.Addr, k.Length), places, region.history("the region was registered"))
	}
}

// whose says which other region a range is in; empty: in none. Programs take the key of one buffer
// with the address of another one, or their own address with the key of a peer.
func (w *work) whose(addr, n uint64) string {
	if o := w.file.regionAt(addr, n); o != nil {
		return fmt.Sprintf(": the address is in the region of key %#x", o.Number)
	}
	if w.peer != nil {
		if o := w.peer.file.regionAt(addr, n); o != nil {
			return fmt.Sprintf(": the address is in the requester's own region, of key %#x", o.Number)
		}
	}
	return ""
}

// regionAt returns the oldest region of the process that contains a range; nil: there is none.
func (f *File) regionAt(addr, n uint64) (oldest *object) {
	for _, o := range f.objects {
		if r := o.Region; r != nil && r.Base <= addr && addr-r.Base <= r.Length && n <= r.Length-(addr-r.Base) && (oldest == nil || o.number < oldest.number) {
			oldest = o
		}
	}
	return oldest
}

// unknown finds out whether a key was one.
func (w *work) unknown(what string, places []Place) {
	for i := len(w.file.s.ended) - 1; i >= 0; i-- {
		o := w.file.s.ended[i]
		if o.Number != w.failure.Key.Key || o.file.device != w.file.device {
			continue
		}
		w.find(useAfterDereg, fmt.Sprintf("%s, whose region was deregistered %v before", what, w.file.s.now().Sub(o.endedAt).Round(precision)),
			places, []Place{{What: "the region was deregistered", Stack: o.endedBy}}, o.history("it was registered"))
		return
	}
	if region := w.file.region(w.failure.Key.Key); region != nil {
		// The program is in ibv_dereg_mr. Ended comes when that has succeeded.
		w.find(useAfterDereg, what+", whose region is being deregistered", places, region.history("it was registered"))
		return
	}
	if o := w.file.window(w.failure.Key.Key); o != nil {
		w.find(keyWindow, what+", which the window no longer has, or not yet", places, o.history("the window was made"))
		return
	}
	if w.file.windows || w.file.s.unseen > 0 {
		return // a window changes its key
	}
	if what += ", which no region of the process has or had"; w.failure.Key.Key == 0 {
		what += ": it is the rkey of regions without remote rights"
	}
	w.find(keyUnknown, what, places, w.qp.history("the queue pair was made"))
}

// window returns the window that has, or had, a key; nil: there is none. All its keys have the same
// index.
func (f *File) window(key uint32) *object {
	for _, o := range f.objects {
		if o.Kind == kindMW && o.Number>>keyVariantBits == key>>keyVariantBits {
			return o
		}
	}
	return nil
}

// nak finds what a peer of another run refused. Within a run the peer has the finding.
func (w *work) nak() {
	if w.peer != nil {
		return
	}
	subject, places := w.asked()
	w.find(refusedByPeer, fmt.Sprintf("%s was refused by %v: %v", subject, w.failure.Peer.Addr(), w.failure.Status), places)
}

func (w *work) rnr() {
	subject, places := w.asked()
	who := fmt.Sprintf("the peer %v", w.failure.Peer.Addr())
	if w.peer != nil {
		who = w.peer.String()
		places = append(places, w.peer.history("the peer's queue pair was made")...)
		if o := w.peer.receiver(); o != w.peer {
			who = "the shared receive queue of " + who
			places = append(places, Place{What: "the shared receive queue was made", Stack: o.made})
		}
	}
	w.find(rnr, fmt.Sprintf("%s found no receive: %s was late in %s%s", subject, who, plural.Of(int(w.failure.Retries), "retry"), w.late()), places)
}

// receiver returns the object that has the receives of a queue pair: itself or a shared queue, if
// that is known.
func (o *object) receiver() *object {
	if o == nil || o.QP.SRQ == nil {
		return o
	}
	if shared := o.file.objects[o.QP.SRQ]; shared != nil {
		return shared
	}
	return o
}

// late says by how many receives a peer was late, and how many it had in time.
func (w *work) late() string {
	waiting := 0
	for _, p := range w.qp.posts {
		if isMessage(p.op) && p.watched() {
			waiting++
		}
	}
	text := ", by " + plural.Of(waiting, "receive")
	if o := w.peer.receiver(); o != nil && o.Receives != nil {
		text += fmt.Sprintf(" (messages took %d before)", o.Receives().Popped())
	}
	return text
}

func (w *work) memory() {
	subject, places := w.asked()
	key := uint32(0)
	if w.failure.Status == rxe.WCSuccess && w.peer != nil {
		if p := w.peer.asker(0, 0, 0); p != nil {
			key = p.rkey
		}
	} else if p := w.qp.request(w.failure.ID); w.own() && p != nil && len(p.pieces) > 0 {
		key = p.pieces[0].key
	}
	if o := w.file.region(key); o != nil {
		places = append(places, o.history("the region was registered")...)
	}
	w.find(unmapped, subject+" needs registered memory that is not mapped any more", places)
}

func (w *work) short() {
	var places []Place
	if w.peer != nil {
		places = posted(w.peer.asker(0, 0, 0))
	}
	capacity := plural.Of(w.failure.Bytes, "byte")
	what := fmt.Sprintf("a message to %s is longer than the receive (wr_id %#x) of %s", w.qp, w.failure.ID, capacity)
	switch {
	case w.failure.GRH:
		what = fmt.Sprintf("a datagram to %s was dropped: its GRH of 40 bytes, which is received before it, and the datagram are longer than the receive of %s", w.qp, capacity)
	case !w.failure.Recv:
		what = fmt.Sprintf("a message to %s was dropped: it is longer than the receive of %s", w.qp, capacity)
	}
	w.find(recvTooShort, what, places, w.qp.history("the queue pair was made"))
}

func (w *work) overflow() {
	places := w.qp.history("the queue pair was made")
	if c := w.file.objects[w.qp.QP.SendCQ]; c != nil {
		places = append(places, Place{What: "the completion queue of its sends was made", Stack: c.made})
	}
	w.file.find(cqOverflow, Finding{What: fmt.Sprintf("a completion of %s found its completion queue full, and the queue pair has failed", w.qp),
		Objects: []string{w.qp.name(), kindCQ}, Places: places})
}

func (w *work) access() {
	w.refused(qpAccess, fmt.Sprintf(" needs a right that qp_access_flags of %s lack", w.qp))
}

func (w *work) depth() {
	w.refused(rdAtomic, fmt.Sprintf(" exceeds max_dest_rd_atomic of %s", w.qp))
}

func (w *work) mtu() {
	w.find(pathMTU, fmt.Sprintf("%s has path MTU %d, and its peer sends packets of %s", w.qp, w.failure.MTU, plural.Of(w.failure.Bytes, "byte")),
		w.qp.history("the queue pair was made"))
}

// window is a bind or an invalidation that this side's device refused.
func (w *work) window() {
	w.refused(keyWindow, " asks for what the window or its region does not allow")
}

// invalidate is a message of the peer that invalidates what it must not.
func (w *work) invalidate() {
	w.refused(keyWindow, " invalidates a key that is not a window bound to this queue pair")
}

func (w *work) malformed() {
	why := ""
	if w.failure.Malformed != nil {
		why = ": " + w.failure.Malformed.Error()
	}
	w.refused(badRequest, " is malformed"+why)
}

func (w *work) misaligned() {
	w.refused(badRequest, " is an atomic on an address that is not a multiple of 8")
}
