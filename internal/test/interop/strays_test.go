package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// TestStrays sends an answer of a kind that does not fit the request. The responder's queue
// pair is gone, so no right answer comes.
func TestStrays(t *testing.T) {
	for _, tc := range []struct {
		name    string
		ask     int         // what is asked for and answered before,
		answer  wire.Opcode // with this,
		instead int         // which comes as the answer to this, too
	}{
		{"SEND, answered with a READ response", opRead, wire.RCReadResponseOnly, opSend},
		{"READ, answered as an atomic is", opFetchAdd, wire.RCAtomicAck, opRead},
		{"FETCH_ADD, answered with a READ response", opRead, wire.RCReadResponseOnly, opFetchAdd},
		{"WRITE, answered as an atomic is", opFetchAdd, wire.RCAtomicAck, opWrite},
	} {
		eachFamily(t, "Mistakes", tc.name, ipv4, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 1<<16, path{kind: typeRC, more: "timeout=18 retry=2"})
			request(tc.ask, 8, 0)(a, b)
			a.polled("the first", statusSuccess)
			b.do("destroy qp=0")
			before := tr.requests(a)
			request(tc.instead, 8, 0)(a, b)
			for deadline := time.Now().Add(tr.limit); tr.requests(a) == before && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			tr.forge(b, tc.answer, func(h *wire.Headers) { h.PSN = h.PSN.Add(1) }, sealRight)
			status := a.poll().status
			tr.row.Note = statusName[status]
			switch {
			case !client.isKernel() && status != statusBadResp:
				tr.Errorf("status %d", status)
			case client.isKernel():
				tr.row.Settled = fmt.Sprintf("%s: it completes with %s.", tc.name, statusName[status])
				if status == statusSuccess && tc.instead == opRead {
					tr.row.Note = defectStray.String()
				}
			}
		})
	}
}

// requests counts what an endpoint's device has sent to a responder.
func (tr *trial) requests(e *endpoint) int {
	tr.Helper()
	n := 0
	for q := range tr.said(e.machine == lab.gorxe) {
		if q.Info().Has(wire.OpRequest) {
			n++
		}
	}
	return n
}
