package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// mistake is an error by one side, with its results: the requester's completion, and the
// answer on the wire.
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
	// The requester gives up soon if a peer does not answer.
	impatient = path{kind: typeRC, more: "timeout=14 retry=2"}
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

// badKey posts an operation with a key that names nothing.
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

// answersOnWire names the answers other than ACKs.
func answersOnWire(naks []wire.Syndrome) string {
	if len(naks) == 0 {
		return "no answer on the wire"
	}
	var names []string
	for _, n := range naks {
		names = append(names, n.String())
	}
	return strings.Join(names, ", ")
}

// TestMistakes: both devices report what the kernel reports for the same mistake.
func TestMistakes(t *testing.T) {
	for _, m := range mistakes {
		quick := ipv4
		if !m.standard {
			quick = ""
		}
		eachFamily(t, "Mistakes", m.name, quick, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 1<<16, m.path)
			if m.name == "FETCH_ADD, misaligned" {
				// The provider refuses to post it, on either side.
				text := a.refused("send qp=0 op=%d mr=0 off=0 len=8 raddr=%d rkey=%s", opFetchAdd, b.addr+513, b.rkey)
				tr.row.Note = text
				return
			}
			m.do(a, b)
			a.polled(m.name, m.status)
			naks := tr.naks(server == lab.gorxe)
			tr.row.Note = fmt.Sprintf("%s; %s", statusName[m.status], answersOnWire(naks))
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
