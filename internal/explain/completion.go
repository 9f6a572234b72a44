package explain

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Failed returns the record of a Failure of a queue pair.
func Failed(qpn wire.QPN, f *rxe.Failure) Record {
	r := Record{
		Kind: Completion, QPN: uint32(qpn), PSN: uint32(f.PSN), WRID: f.ID, Retries: int(f.Retries),
		PeerQPN: uint32(f.PeerQPN), Answer: answer(f.Syndrome),
	}
	if !f.Peer.IsZero() {
		r.Peer = address(f.Peer)
	}
	what := fmt.Sprintf("queue pair 0x%06x refused PSN 0x%06x of %s", r.QPN, r.PSN, r.peer())
	switch {
	case f.Cause == rxe.CauseCQFull:
		r.Kind, r.WRID = Overflow, 0
		what = fmt.Sprintf("queue pair 0x%06x failed", r.QPN)
	case f.Status == rxe.WCSuccess:
		r.Kind = Request
		if f.Cause == rxe.CauseSpaceEnded { // it sends no NAK
			what = fmt.Sprintf("queue pair 0x%06x gave no answer to PSN 0x%06x of %s", r.QPN, r.PSN, r.peer())
		}
	default:
		r.Operation = f.Op.String()
		if f.Recv {
			r.Operation = receive
		}
		r.Status = StatusName(f.Status)
		what = fmt.Sprintf("queue pair 0x%06x: %s (wr_id %#x) ended with %s", r.QPN, r.Operation, r.WRID, r.Status)
	}
	c := &causes[f.Cause]
	r.Fault, r.AfterEnd = c.side, f.Cause == rxe.CauseSpaceEnded
	why, fix := c.why, c.fix
	if c.words != nil {
		why, fix = c.words(&r, f)
	}
	r.Fix = fix
	r.What = what + ": " + why
	return r
}

// receive is the Operation of a receive work request.
const receive = "receive"

// StatusName returns the name of enum ibv_wc_status.
func StatusName(s rxe.WCStatus) string {
	if w := wordOf(s); w != nil {
		return w.Name
	}
	return fmt.Sprintf("status %d", s)
}

// peer names the other end.
func (r *Record) peer() string {
	if r.Peer == "" {
		return "the peer"
	}
	return r.Peer
}

func address(gid wire.GID) string { return gid.Addr().String() }

// answer describes an acknowledgement.
func answer(s wire.Syndrome) string {
	switch {
	case s == 0:
		return ""
	case s.IsRNR():
		return "RNR NAK"
	case s.IsNAK():
		return "NAK: " + nakNames[s.NAKCode()]
	}
	return ""
}

// nakNames are those of IBA 9.7.5.2.
var nakNames = map[wire.NAKCode]string{
	wire.NAKPSNSequence: "PSN sequence error", wire.NAKInvalidRequest: "invalid request",
	wire.NAKRemoteAccess: "remote access error", wire.NAKRemoteOp: "remote operational error",
	wire.NAKInvalidRD: "invalid RD request",
}

// cause is what is said of a rxe.Cause.
type cause struct {
	side  Side
	why   string
	fix   string
	words func(*Record, *rxe.Failure) (why, fix string) // instead of why and fix
}

var causes = [rxe.NumCauses]cause{
	rxe.CauseUnknown:      {Program, "the reason is not known", "see the program's own output", nil},
	rxe.CauseTimeout:      {side: Unreachable, words: timeoutWords},
	rxe.CauseSequenceNAKs: {side: Network, words: retriesLost},
	rxe.CauseLostAnswers:  {side: Network, words: retriesLost},
	rxe.CauseRNR:          {side: Peer, words: rnrWords},
	rxe.CauseNAK:          {side: Program, words: nakWords},
	rxe.CauseBadResponse:  {Peer, "the answer does not fit the request", "the peer's device is at fault: check a capture", nil},
	rxe.CauseKey:          {side: Program, words: keyWords},
	rxe.CauseMemory:       {Program, "the memory of a registered buffer is not mapped", "keep it until the completion", nil},
	rxe.CauseMalformed:    {side: Program, words: malformedWords},
	rxe.CauseWindow:       {side: Program, words: windowWords},
	rxe.CauseRule:         {Rule, "a fault rule says so", seeRules, nil},
	rxe.CauseCQFull:       {Program, "its completion queue is full", "create the queue with more entries, or poll sooner", nil},
	rxe.CauseSpaceEnded:   {Program, "the program that owns the memory has ended", "end the connection first", nil},
	rxe.CauseRecvShort:    {side: Peer, words: shortWords},
	rxe.CauseSequence:     {Peer, "its packets of a message are out of order", "check the peer's device with a capture", nil},
	rxe.CauseQPAccess:     {Program, "qp_access_flags do not allow the operation", "allow it with modify_qp", nil},
	rxe.CauseDepth:        {Program, "more READs and atomics than max_dest_rd_atomic", "raise it, or lower the peer's max_rd_atomic", nil},
	rxe.CauseLength:       {Peer, "its length does not fit the message", "check the peer's path MTU and its device", nil},
	rxe.CauseMTU:          {side: Both, words: mtuWords},
	rxe.CauseLinkMTU:      {side: Program, words: linkMTUWords},
	rxe.CauseMisaligned:   {Peer, "an atomic needs an address that is a multiple of 8", "align it", nil},
	rxe.CauseRemoteKey:    {side: Peer, words: keyWords},
	rxe.CauseInvalidate:   {Peer, "its key cannot be invalidated", "name a bound type 2 window", nil},
	rxe.CauseSRQN:         {Peer, "it names no SRQ of the queue pair's XRC domain", "ask ibv_get_srq_num for the number", nil},
	rxe.CauseLimit:        {side: Rule, words: limitWords},
	rxe.CauseQKey:         {side: Peer, words: qkeyWords},
}

func timeoutWords(r *Record, _ *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("%s answered no packet from PSN 0x%06x on in %s", r.peer(), r.PSN, plural.Of(r.Retries, "retry")),
		"see whether its queue pair still exists"
}

func retriesLost(r *Record, _ *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("%s of PSN 0x%06x did not come through", plural.Of(r.Retries, "retry"), r.PSN), "look for losses in the network"
}

func rnrWords(r *Record, _ *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("%s had no receive work request in %s", r.peer(), plural.Of(r.Retries, "retry")), "let it post earlier, or raise rnr_retry"
}

func nakWords(r *Record, f *rxe.Failure) (why, fix string) {
	why = fmt.Sprintf("%s answered PSN 0x%06x with %s", r.peer(), r.PSN, r.Answer)
	switch f.Syndrome.NAKCode() {
	case wire.NAKRemoteAccess:
		return why, "check rkey, address, length and rights"
	case wire.NAKRemoteOp:
		return why, "check the peer's receive buffer"
	default:
		return why, "check both ends' path MTU, the peer's receive buffers, qp_access_flags and max_dest_rd_atomic"
	}
}

func mtuWords(_ *Record, f *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("path MTUs differ: a packet has %s, this end's path MTU is %d", plural.Of(f.Bytes, "byte"), f.MTU),
		"use one path_mtu (-m)"
}

func linkMTUWords(_ *Record, f *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("packets with path MTU %d exceed the interface's MTU %d", f.MTU, f.Bytes),
		fmt.Sprintf("use path_mtu %[1]d (-m %[1]d of ibv_*_pingpong and perftest)", f.Fits)
}

func keyWords(_ *Record, f *rxe.Failure) (why, fix string) {
	k := &f.Key
	key := "lkey"
	if f.Cause == rxe.CauseRemoteKey {
		key = "rkey"
	}
	return fmt.Sprintf("%s %#x, %s at %#x: %s", key, k.Key, plural.Of(int(k.Length), "byte"), k.Addr, k.Why), keyFix(k)
}

// keyFix returns what to do about a key that gives no access, by rxe's reason.
func keyFix(k *rxe.KeyRefusal) string {
	switch {
	case strings.Contains(k.Why, "protection domain"):
		return "register it in the queue pair's PD"
	case strings.Contains(k.Why, "right"):
		return "register it with " + rightName(k.Need)
	case strings.Contains(k.Why, "range"):
		return "stay within the region"
	case strings.Contains(k.Why, "not bound"):
		return "bind the window first"
	case strings.Contains(k.Why, "kind"):
		return "name a region"
	}
	return "use the key of a region that still exists"
}

func rightName(a rxe.Access) string {
	for _, right := range []struct {
		bit  rxe.Access
		name string
	}{
		{rxe.AccessLocalWrite, "IBV_ACCESS_LOCAL_WRITE"}, {rxe.AccessRemoteWrite, "IBV_ACCESS_REMOTE_WRITE"},
		{rxe.AccessRemoteRead, "IBV_ACCESS_REMOTE_READ"}, {rxe.AccessRemoteAtomic, "IBV_ACCESS_REMOTE_ATOMIC"},
		{rxe.AccessMWBind, "IBV_ACCESS_MW_BIND"}, {rxe.AccessFlushGlobal, "IBV_ACCESS_FLUSH_GLOBAL"},
		{rxe.AccessFlushPersist, "IBV_ACCESS_FLUSH_PERSISTENT"},
	} {
		if a&right.bit != 0 {
			return right.name
		}
	}
	return "the right that it needs"
}

func malformedWords(r *Record, f *rxe.Failure) (why, fix string) {
	var op *rxe.OpError
	if errors.As(f.Malformed, &op) && (op.Fix != "" || op.Lowered) {
		subject := op.Arg
		if op.Given != "" {
			subject += " " + op.Given
		}
		fix = op.Fix
		if op.Lowered {
			r.Fault, fix = Rule, seeRules
		}
		return joined(subject, op.Why), fix
	}
	return "the work request is malformed", "check its opcode, flags, num_sge and lengths"
}

func windowWords(_ *Record, f *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("window key %#x: %s", f.Key.Key, f.Key.Why), "see the man page of ibv_bind_mw"
}

func limitWords(_ *Record, f *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("a fault rule limits max_msg_sz to %d", f.Bytes), seeRules
}

func shortWords(_ *Record, f *rxe.Failure) (why, fix string) {
	what := "the message is longer"
	if f.GRH {
		what = "the 40 bytes of the GRH and the message are longer"
	}
	return fmt.Sprintf("%s than the receive buffer of %s", what, plural.Of(int(f.Bytes), "byte")), "post larger buffers"
}

func qkeyWords(_ *Record, f *rxe.Failure) (why, fix string) {
	return fmt.Sprintf("its Q_Key is %#x, and this queue pair has %#x", f.QKey, f.OwnQKey), "send with the receiver's Q_Key (remote_qkey)"
}
