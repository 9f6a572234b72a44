package rxe

import (
	"testing"

	"github.com/gorxe/gorxe/wire"
)

// conversation is a bench whose program answers each WRITE of its peer with one of its own.
type conversation struct {
	*bench
	peer, own wire.PSN // of the next message of either side
	msn       wire.MSN // of the last message of the peer
}

const answerPSN = 500

func newConversation(t *testing.T) *conversation {
	t.Helper()
	c := &conversation{bench: newBench(t, QPRC, nil), peer: benchPSN, own: answerPSN}
	c.must(c.qp.Modify(&QPAttr{State: QPRTS, SQPSN: answerPSN, Timeout: 20, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 2},
		RequiredMask(QPRC, QPRTR, QPRTS)))
	return c
}

// says delivers a WRITE of the peer, which acknowledges everything that this side has sent.
func (c *conversation) says() {
	c.t.Helper()
	packets := []pkt{req(wire.RCWriteOnly, c.peer, []byte{1, 2}, c.at(0, 2))}
	if c.own != answerPSN {
		packets = append(packets, pkt{h: wire.Headers{Opcode: wire.RCAck, PSN: c.own.Sub(1), Syndrome: wire.SyndromeACK}})
	}
	c.send(packets...)
	c.peer, c.msn = c.peer.Next(), c.msn+1
}

// answers has the program post a WRITE.
func (c *conversation) answers() {
	c.t.Helper()
	sgl := []SGE{{Addr: localVA, Length: 2, LKey: c.local.LKey()}}
	_, err := c.qp.PostSend([]SendWR{{ID: 1, Op: WRWrite, SGL: sgl, RemoteAddr: remoteVA, RKey: 1}})
	c.must(err)
	c.own = c.own.Next()
}

// ack is the check for an ACK of the peer's last message.
func (c *conversation) ack() check { return ack(c.peer.Sub(1), c.msn) }

// request is the check for the program's last message.
func (c *conversation) request() check {
	psn := c.own.Sub(1)
	return func(pkt wire.Packet) string {
		if pkt.Opcode() != wire.RCWriteOnly || pkt.PSN() != psn {
			return "want the program's WRITE"
		}
		return ""
	}
}

// habit lets messages alternate until ACKs are held, and takes what was sent.
func (c *conversation) habit() {
	c.t.Helper()
	for range ackHoldAnswers {
		c.says()
		c.want(c.ack()) // at once: nothing is known yet
		c.answers()
		c.want(c.request())
	}
}

// expire moves the clock to the deadline for which it is armed.
func (c *conversation) expire(after Time) {
	c.clock.now += after
	c.dev.Expire()
}

func TestACKGoesWithTheAnswer(t *testing.T) {
	c := newConversation(t)
	c.habit()
	for range 3 {
		c.says()
		c.want()
		c.clock.now += ackHoldTime / 2
		c.answers()
		if n := len(c.link.bursts); n != 1 {
			t.Errorf("the answer and its ACK left in %d bursts", n)
		}
		c.want(c.request(), c.ack())
		c.expire(ackHoldTime)
		c.want() // the ACK has left
	}
}

// An answer that comes late, or not at all, ends the habit.
func TestHeldACKLeavesInTime(t *testing.T) {
	c := newConversation(t)
	c.habit()
	c.says()
	c.want()
	if left := c.clock.armed - c.clock.now; left != ackHoldTime {
		t.Errorf("the clock is armed for %v from now, want %v", left, ackHoldTime)
	}
	c.expire(ackHoldTime - 1)
	c.want()
	c.expire(1)
	c.want(c.ack())
	c.says()
	c.want(c.ack())
	c.answers()
	c.want(c.request())
	c.says()
	c.want(c.ack()) // one answer is no habit
}

// A peer whose program only sends gets each ACK at once, and so does one whose program is
// answered late.
func TestACKWithoutHabit(t *testing.T) {
	for name, answer := range map[string]func(c *conversation){
		"no answers": func(*conversation) {},
		"late answers": func(c *conversation) {
			c.clock.now += ackHoldTime
			c.answers()
			c.want(c.request())
		},
		"every second": func(c *conversation) {
			if c.peer%2 == 0 {
				c.answers()
				c.want(c.request())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			for range 4 * ackHoldAnswers {
				c.says()
				c.want(c.ack())
				answer(c)
			}
		})
	}
}

// A peer that goes on sending finds its window open.
func TestHeldACKCoversFewPackets(t *testing.T) {
	c := newConversation(t)
	c.habit()
	for range ackHoldPackets {
		c.says()
		c.want()
	}
	c.says()
	c.want(c.ack())
}

// Whatever else the responder sends, a held ACK leaves before it.
func TestHeldACKLeavesFirst(t *testing.T) {
	tests := map[string]struct {
		next func(c *conversation) pkt
		want func(c *conversation) check
	}{
		"READ": {
			func(c *conversation) pkt { return req(wire.RCReadRequest, c.peer, nil, c.at(0, 4)) },
			func(c *conversation) check { return readData(wire.RCReadResponseOnly, c.peer, c.bytes(remoteVA, 4)) },
		},
		"NAK of a gap": {
			func(c *conversation) pkt { return req(wire.RCWriteOnly, c.peer.Add(2), []byte{1, 2}, c.at(0, 2)) },
			func(c *conversation) check { return nak(wire.NAKPSNSequence, c.peer) },
		},
		"NAK of a bad key": {
			func(c *conversation) pkt {
				return req(wire.RCWriteOnly, c.peer, []byte{1, 2}, func(h *wire.Headers) { h.VA, h.RKey, h.DMALen = remoteVA, 7, 2 })
			},
			func(c *conversation) check { return nak(wire.NAKRemoteAccess, c.peer) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			c.habit()
			c.says()
			c.want()
			held := c.ack()
			c.send(test.next(c))
			c.want(held, test.want(c))
			c.expire(ackHoldTime)
			c.want()
		})
	}
}

// A duplicate says that the peer misses an ACK: the one that is held answers it.
func TestDuplicateReleasesHeldACK(t *testing.T) {
	c := newConversation(t)
	c.habit()
	c.says()
	c.want()
	c.send(req(wire.RCWriteOnly, c.peer.Sub(1), []byte{1, 2}, c.at(0, 2)))
	c.want(c.ack())
	c.send(req(wire.RCWriteOnly, c.peer.Sub(1), []byte{1, 2}, c.at(0, 2)))
	c.want(c.ack()) // none is held any more
}

// The last message of a connection is acknowledged, however the program ends it.
func TestHeldACKLeavesBeforeTheEnd(t *testing.T) {
	for name, end := range map[string]func(c *conversation) error{
		"ERR":   func(c *conversation) error { return c.qp.Modify(&QPAttr{State: QPErr}, QPAttrState) },
		"RESET": func(c *conversation) error { return c.qp.Modify(&QPAttr{State: QPReset}, QPAttrState) },
		"destroyed": func(c *conversation) error {
			return c.qp.Destroy()
		},
		"device closed": func(c *conversation) error { return c.dev.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			c.habit()
			c.says()
			c.want()
			c.must(end(c))
			c.want(c.ack())
		})
	}
}
