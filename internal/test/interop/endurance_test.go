package interop

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// endurance is how long that test runs.
func endurance(t *testing.T) time.Duration {
	text := os.Getenv("GORXE_INTEROP_ENDURANCE")
	if text == "" {
		if full {
			return 2 * time.Minute
		}
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("GORXE_INTEROP_ENDURANCE: %v", err)
	}
	return d
}

// TestEndurance runs 16 queue pairs at once, half of them in each direction. In each half,
// two thirds do one-sided operations and one third sends messages. Sizes are random, and
// every byte is compared.
func TestEndurance(t *testing.T) {
	t.Run("mixed", func(t *testing.T) {
		length := endurance(t)
		name := fmt.Sprintf("16 queue pairs, both directions at once, for %v", length)
		tr := begin(t, row{Section: "Endurance", Case: name, Role: "both", Family: "both"})
		tr.limit = length + longTimeout
		const pairs, max = 16, 8000
		limits := fmt.Sprintf("max=%d for=%d ms=%d", max, length.Milliseconds(), tr.limit.Milliseconds())
		type connection struct {
			a, b     *endpoint
			messages bool
		}
		var all []connection
		for i := range pairs {
			requester, responder := lab.gorxe, lab.guest
			if i%2 == 1 {
				requester, responder = responder, requester
			}
			f := []family{ipv4, ipv6}[i/2%2]
			a, b := tr.pair(requester, responder, f, 1<<18, path{kind: typeRC, mtu: []int{256, 1024, 4096}[i/2%3]})
			all = append(all, connection{a, b, i/2%3 == 1})
		}
		for i, c := range all {
			if c.messages {
				c.b.begin("sink qp=0 mr=0 seed=%d %s", i, limits)
				c.a.begin("stream qp=0 mr=0 seed=%d %s", i, limits)
			} else {
				c.a.begin("loop qp=0 mr=0 raddr=%d rkey=%s seed=%d %s", c.b.addr, c.b.rkey, i, limits)
			}
		}
		defer tr.stream()()
		operations := uint64(0)
		for _, c := range all {
			n := c.a.reply("loop or stream").number(c.a, "n")
			if c.messages {
				if got := c.b.reply("sink").number(c.b, "n"); got != n {
					tr.Errorf("%d messages arrived, not %d", got, n)
				}
				operations += n
			} else {
				operations += 3 * n
			}
		}
		tr.row.Note = fmt.Sprintf("%d operations: SEND with and without immediate; WRITE, READ back, FETCH_ADD or CMP_SWAP", operations)
	})
}
