package interop

import (
	"fmt"
	"testing"
)

// TestEndurance: 16 queue pairs at once, half of them in each direction.
func TestEndurance(t *testing.T) {
	t.Run("mixed", func(t *testing.T) {
		tr := begin(t, row{Section: "Endurance", Case: "16 queue pairs, both directions at once", Role: "both", Family: ipv4})
		tr.limit = longPatience
		const pairs, max = 16, 8000
		messages := 64
		if full {
			messages = 5000
		}
		type working struct {
			e       *endpoint
			command string
		}
		var all []working
		for i := range pairs {
			requester, responder := lab.gorxe, lab.guest
			if i%2 == 1 {
				requester, responder = responder, requester
			}
			a, b := tr.pair(requester, responder, ipv4, 1<<18, path{kind: typeRC, mtu: []int{256, 1024, 4096}[i%3]})
			all = append(all, working{a, a.begin("loop qp=0 mr=0 n=%d max=%d raddr=%d rkey=%s ms=%d", messages, max, b.addr, b.rkey, longPatience.Milliseconds())})
		}
		for _, w := range all {
			w.e.reply(w.command)
		}
		tr.row.Note = fmt.Sprintf("%d operations: WRITE, READ back, FETCH_ADD", 3*messages*pairs)
	})
}
