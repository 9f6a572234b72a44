package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// mistake is something that one side does wrong, and what both are told: the
// requester's completion, and the answer on the wire.
type mistake struct {
	name     string
	path     path
	standard bool
	do       func(a, b *endpoint) // a is the requester
	status   int
	nak      wire.NAKCode // that the responder sent
	none     bool         // it sent no NAK
}

var (
	rc        = path{kind: typeRC}
	forbidden = path{kind: typeRC, none: true}
	// A peer that does not answer is given up soon.
	impatient = path{kind: typeRC, more: "timeout=14 retry=2 rnr=2"}
)

// request posts an operation on 8 bytes, at an offset of the peer's region.
func request(op, size int, offset uint64) func(a, b *endpoint) {
	return func(a, b *endpoint) {
		a.Helper()
		a.do("send qp=0 op=%d mr=0 off=0 len=%d raddr=%d rkey=%s", op, size, b.addr+offset, b.rkey)
	}
}

// requestOf posts one on a region that the responder registers for it.
func requestOf(op int, region string, args ...any) func(a, b *endpoint) {
	return func(a, b *endpoint) {
		a.Helper()
		r := b.do("mr mr=1 len=8192 "+region, args...)
		a.do("send qp=0 op=%d mr=0 off=0 len=8 raddr=%s rkey=%s", op, r.fields["addr"], r.fields["rkey"])
	}
}

// badKey posts one with a key that names nothing.
func badKey(op int) func(a, b *endpoint) {
	return func(a, b *endpoint) {
		a.Helper()
		key := b.do("mr mr=1 len=8192 access=%d", accessAll)
		b.do("dereg mr=1")
		a.do("send qp=0 op=%d mr=0 off=0 len=8 raddr=%s rkey=%s", op, key.fields["addr"], key.fields["rkey"])
	}
}

var mistakes = []mistake{
	{"WRITE, rkey of nothing", rc, true, badKey(opWrite), statusRemAccess, wire.NAKRemoteAccess, false},
	{"READ, rkey of nothing", rc, true, badKey(opRead), statusRemAccess, wire.NAKRemoteAccess, false},
	{"FETCH_ADD, rkey of nothing", rc, true, badKey(opFetchAdd), statusRemAccess, wire.NAKRemoteAccess, false},
	{"WRITE beyond the region", rc, true, request(opWrite, 4096, 1<<16-8), statusRemAccess, wire.NAKRemoteAccess, false},
	{"READ beyond the region", rc, true, request(opRead, 4096, 1<<16-8), statusRemAccess, wire.NAKRemoteAccess, false},
	{"WRITE, region without the right", rc, true, requestOf(opWrite, "access=%d", accessLocalWrite|accessRemoteRead), statusRemAccess, wire.NAKRemoteAccess, false},
	{"READ, region without the right", rc, true, requestOf(opRead, "access=%d", accessLocalWrite|accessRemoteWrite), statusRemAccess, wire.NAKRemoteAccess, false},
	{"FETCH_ADD, region without the right", rc, true, requestOf(opFetchAdd, "access=%d", accessLocalWrite|accessRemoteWrite|accessRemoteRead), statusRemAccess, wire.NAKRemoteAccess, false},
	{"WRITE, region of another domain", rc, true, requestOf(opWrite, "pd=1 access=%d", accessAll), statusRemAccess, wire.NAKRemoteAccess, false},
	{"READ, region of another domain", rc, false, requestOf(opRead, "pd=1 access=%d", accessAll), statusRemAccess, wire.NAKRemoteAccess, false},
	{"WRITE, queue pair without the right", forbidden, true, request(opWrite, 8, 512), statusRemInvReq, wire.NAKInvalidRequest, false},
	{"READ, queue pair without the right", forbidden, true, request(opRead, 8, 512), statusRemInvReq, wire.NAKInvalidRequest, false},
	{"FETCH_ADD, queue pair without the right", forbidden, true, request(opFetchAdd, 8, 512), statusRemInvReq, wire.NAKInvalidRequest, false},
	{"FETCH_ADD, misaligned", rc, true, request(opFetchAdd, 8, 513), statusRemInvReq, wire.NAKInvalidRequest, false},
	{"SEND into queue pair in error", impatient, true, func(a, b *endpoint) {
		b.do("modify qp=0 state=%d", stateErr)
		request(opSend, 8, 0)(a, b)
	}, statusRetryExceeded, 0, true},
	{"SEND, peer gone", impatient, true, func(a, b *endpoint) {
		b.do("destroy qp=0")
		request(opSend, 8, 0)(a, b)
	}, statusRetryExceeded, 0, true},
	{"READ, peer gone", impatient, false, func(a, b *endpoint) {
		b.do("destroy qp=0")
		request(opRead, 8, 0)(a, b)
	}, statusRetryExceeded, 0, true},
}

// TestMistakes: both say what the kernel says to the same mistake.
func TestMistakes(t *testing.T) {
	for _, m := range mistakes {
		if !takes(m.standard) {
			continue
		}
		eachRole(t, "Mistakes", m.name, ipv4, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, ipv4, 1<<16, m.path)
			if m.name == "FETCH_ADD, misaligned" {
				// The provider refuses to post it, on either side.
				text := a.refused("send qp=0 op=%d mr=0 off=0 len=8 raddr=%d rkey=%s", opFetchAdd, b.addr+513, b.rkey)
				tr.row.Note = text
				return
			}
			m.do(a, b)
			a.polled(m.name, m.status)
			naks := tr.naks(server == lab.gorxe)
			tr.row.Note = fmt.Sprintf("completion status %d; answers on the wire: %v", m.status, naks)
			if m.none {
				if len(naks) > 0 {
					tr.Errorf("answers on the wire: %v", naks)
				}
				return
			}
			if len(naks) == 0 || naks[len(naks)-1] != wire.SyndromeNAK(m.nak) {
				tr.Errorf("answers on the wire: %v, want %v", naks, wire.SyndromeNAK(m.nak))
			}
			// The requester's queue pair is in error, and flushes.
			if is := a.do("state qp=0").fields["is"]; is != fmt.Sprint(stateErr) {
				tr.Errorf("the requester's queue pair is in state %s", is)
			}
			request(opSend, 8, 0)(a, b)
			a.polled("a SEND after that", statusFlushed)
		})
	}
}

// TestReceives: none posted, or one that is too small.
func TestReceives(t *testing.T) {
	eachRole(t, "Mistakes", "SEND, receive buffer too small", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, ipv4, 1<<16, rc)
		b.do("recv qp=0 mr=0 off=0 len=16")
		request(opSend, 64, 0)(a, b)
		status, received := a.poll().status, b.poll().status
		naks := tr.naks(server == lab.gorxe)
		tr.row.Note = fmt.Sprintf("completion status %d, of the receive %d; answers on the wire: %v", status, received, naks)
		if status == statusSuccess || received == statusSuccess || len(naks) == 0 {
			tr.Error(tr.row.Note)
		}
	})
	eachRole(t, "Receiver not ready", "then ready", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, ipv4, 1<<16, path{kind: typeRC, more: "rnrtimer=18"}) // 4 ms
		a.do("fill mr=0 off=0 len=3000 seed=2")
		for id := range 3 {
			a.do("send qp=0 id=%d op=%d mr=0 off=0 len=3000", id, opSend)
		}
		// Not before the responder has said that it is not ready.
		for deadline := time.Now().Add(patience); len(tr.naks(server == lab.gorxe)) == 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		for id := range 3 {
			b.do("recv qp=0 id=%d mr=0 off=%d len=4096", id, 4096*id)
		}
		for id := range 3 {
			if a.polled("SEND", statusSuccess).id != id || b.polled("SEND", statusSuccess).id != id {
				tr.Error("out of order")
			}
			b.holds("SEND", 4096*id, 3000, 2)
		}
		rnr := tr.naks(server == lab.gorxe)
		if len(rnr) == 0 || !rnr[0].IsRNR() || rnr[0].RNRTimer() != 18 {
			tr.Errorf("answers on the wire: %v", rnr)
		}
		tr.row.Note = "3 SENDs arrive in order; first answer " + rnr[0].String()
	})
	eachRole(t, "Receiver not ready", "never, rnr_retry 2", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, ipv4, 1<<16, impatient)
		request(opSend, 64, 0)(a, b)
		a.polled("SEND", statusRNRExceeded)
		rnr := 0
		for _, s := range tr.naks(server == lab.gorxe) {
			if s.IsRNR() {
				rnr++
			}
		}
		tr.row.Note = fmt.Sprintf("completion status %d after %d RNR NAKs", statusRNRExceeded, rnr)
	})
}
