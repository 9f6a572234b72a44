package interop

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// The tests forge packets that no device sends. They change a packet of the case, seal it
// again and put it on the cable.

// seal is how a forged packet gets its ICRC.
type seal int

const (
	sealRight seal = iota
	sealWrong
	sealTwice // as rdma_rxe seals a FLUSH: see sealedTwice
)

// forge sends a changed copy of the last packet that e's device sent with an
// opcode.
func (tr *trial) forge(e *endpoint, op wire.Opcode, change func(h *wire.Headers), how seal) {
	tr.Helper()
	tr.collect()
	fromGorxe := e.machine == lab.gorxe
	for i := len(tr.packets) - 1; i >= 0; i-- {
		p := tr.packets[i]
		r, err := parseRoCE(p.data)
		if r == nil || err != nil || p.sent != fromGorxe || r.opcode() != op || tr.forged[string(p.data)] {
			continue
		}
		frame := append([]byte(nil), p.data...)
		// the frame ends with the ICRC: none of these is padded to Ethernet's minimum
		at := len(frame) - len(r.Transport)
		bth := frame[at:]
		binary.BigEndian.PutUint16(frame[at-2:], 0) // UDP's own checksum, which IPv4 may lack
		q, err := wire.Parse(r.body())
		if err != nil {
			tr.Fatal(err)
		}
		h := q.Headers()
		change(&h)
		h.Put(bth)
		state := wire.NewICRC(&r.route, wire.UDPPort)
		state.Put(bth, r.IP.ID)
		switch how {
		case sealRight:
		case sealWrong:
			frame[len(frame)-1] ^= 1
		case sealTwice:
			binary.LittleEndian.PutUint32(frame[len(frame)-wire.ICRCLen:], sealedTwice(r, bth))
		}
		tr.forged[string(frame)] = true
		e.do("frame link=%s bytes=%s", e.machine.device, hex.EncodeToString(frame))
		return
	}
	tr.Fatalf("%s has sent no %v", e.machine.name, op)
}

// sealedTwice returns the ICRC that rdma_rxe gives a FLUSH. Its opcode table does not say
// where the payload of a FLUSH begins, so the CRC of the payload covers the headers again.
func sealedTwice(r *roce, bth []byte) uint32 {
	state := wire.NewICRC(&r.route, wire.UDPPort)
	body := bth[:len(bth)-wire.ICRCLen]
	return crc32.Update(state.Sum(r.IP.ID, r.IP.DF, body), crc32.IEEETable, body)
}

// responses counts the packets of this case in which a device answers a queue pair of the
// other.
func (tr *trial) responses(e *endpoint, want func(q wire.Packet) bool) int {
	tr.Helper()
	n := 0
	for q := range tr.said(e.machine == lab.gorxe) {
		if q.Info().Flags&wire.OpResponse != 0 && want(q) {
			n++
		}
	}
	return n
}

func anyResponse(wire.Packet) bool { return true }

// silence is how long a test waits for an answer that need not come.
const silence = 2 * time.Second

// patience is how long a test waits for an answer of a machine. gorxe must give one.
func patience(m *machine) time.Duration {
	if m.isKernel() {
		return silence
	}
	return programTimeout
}

// nextResponse names the next answer that a device sends within the limit. Each call continues
// after the answer of the last one.
func (tr *trial) nextResponse(e *endpoint, limit time.Duration) string {
	tr.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		name, at := "", 0
		n := tr.responses(e, func(q wire.Packet) bool {
			if at++; at == tr.answered[e]+1 {
				name = q.Opcode().String()
				if q.Opcode() == wire.RCAck {
					name = q.Syndrome().String()
				}
			}
			return true
		})
		if n > tr.answered[e] {
			tr.answered[e] = n
			return name
		}
	}
	return "nothing"
}

// TestForged: a device drops packets that are not for it, or not whole, and says nothing.
func TestForged(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(h *wire.Headers)
		seal    seal
		counter string // of the port, that counts it
	}{
		{"wrong P_Key", func(h *wire.Headers) { h.PKey = 0x1234 }, sealRight, "pkey"},
		{"wrong ICRC", func(*wire.Headers) {}, sealWrong, ""},
		{"queue pair that is not there", func(h *wire.Headers) { h.DestQP ^= 0x800000 }, sealRight, ""},
		{"another transport's opcode", func(h *wire.Headers) { h.Opcode = wire.UCSendOnly }, sealRight, ""},
	} {
		eachFamily(t, "Mistakes", "SEND, "+tc.name, ipv4, func(tr *trial, server, client *machine) {
			a, b := tr.pair(client, server, tr.row.Family, 1<<16, rc)
			counter := func() uint64 {
				if tc.counter == "" {
					return 0
				}
				return b.do("port").number(b, tc.counter)
			}
			send := func(id int) {
				tr.Helper()
				b.do("recv qp=0 id=%d mr=0 off=0 len=256", id)
				a.do("fill mr=0 off=4096 len=100 seed=%d", id)
				a.do("send qp=0 id=%d op=%d mr=0 off=4096 len=100", id, opSend)
			}
			arrives := func(id int) {
				tr.Helper()
				a.polled("SEND", statusSuccess)
				if c := b.polled("SEND", statusSuccess); c.id != id {
					tr.Errorf("receive %d completes, not %d", c.id, id)
				}
				b.holds("SEND", 0, 100, id)
			}
			send(1)
			arrives(1)
			answers, before := tr.responses(b, anyResponse), counter()
			tr.forge(a, wire.RCSendOnly, func(h *wire.Headers) { h.PSN = h.PSN.Add(1); tc.change(h) }, tc.seal)
			// The right packet has the same PSN, and follows.
			send(2)
			arrives(2)
			if n := tr.responses(b, anyResponse) - answers; n != 1 {
				tr.Errorf("%d answers, one of them to the right one", n)
			}
			tr.row.Note = "dropped; the right one with the same PSN arrives"
			if tc.counter != "" {
				if n := counter() - before; n != 1 {
					tr.Errorf("the port counted %d", n)
				}
				tr.row.Note += "; counted in bad_pkey_cntr"
			}
		})
	}
}

// TestDuplicates: requests that come again.
func TestDuplicates(t *testing.T) {
	again := func(*wire.Headers) {}
	const region = 1 << 16
	// barrier does something that is answered after all that came before it.
	barrier := func(a, b *endpoint) {
		a.Helper()
		a.do("send qp=0 op=%d mr=0 off=32768 len=8 raddr=%d rkey=%s", opWrite, b.addr+32768, b.rkey)
		a.polled("WRITE", statusSuccess)
	}
	eachFamily(t, "Duplicates", "SEND, atomic", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, region, rc)
		for id := range 2 {
			b.do("recv qp=0 id=%d mr=0 off=%d len=64", id, 64*id)
		}
		request(opSend, 64, 0)(a, b)
		a.polled("SEND", statusSuccess)
		tr.forge(a, wire.RCSendOnly, again, sealRight)
		b.do("set mr=0 off=8192 to=5")
		a.do("send qp=0 op=%d mr=0 off=128 len=8 raddr=%d rkey=%s add=3", opFetchAdd, b.addr+8192, b.rkey)
		a.polled("FETCH_ADD", statusSuccess)
		before := tr.responses(b, func(q wire.Packet) bool { return q.Opcode() == wire.RCAtomicAck && q.AtomicOrig() == 5 })
		tr.forge(a, wire.RCFetchAdd, again, sealRight)
		request(opSend, 64, 0)(a, b)
		a.polled("SEND", statusSuccess)
		if c := b.polled("SEND", statusSuccess); c.id != 0 {
			tr.Error("out of order")
		}
		if c := b.polled("SEND", statusSuccess); c.id != 1 {
			tr.Error("the duplicate was taken for a second SEND")
		}
		after := tr.responses(b, func(q wire.Packet) bool { return q.Opcode() == wire.RCAtomicAck && q.AtomicOrig() == 5 })
		if sum := b.do("get mr=0 off=8192").number(b, "is"); sum != 8 || before != 1 || after != 2 {
			tr.Errorf("the atomic left %d; %d and %d answers", sum, before, after)
		}
		tr.row.Note = "executed once; the duplicate of the atomic is answered with the value that it returned"
	})
	eachFamily(t, "Duplicates", "READ of zero bytes", ipv4, func(tr *trial, server, client *machine) {
		for _, named := range []bool{false, true} {
			a, b := tr.pair(client, server, tr.row.Family, region, rc)
			key, err := strconv.ParseUint(b.rkey, 10, 32)
			if err != nil {
				tr.Fatal(err)
			}
			which := "its region's"
			if !named {
				key, which = 0, "0"
			}
			a.do("send qp=0 op=%d mr=0 len=0 raddr=%d rkey=%d", opRead, b.addr, key)
			a.polled("READ", statusSuccess)
			tr.answered[b] = tr.responses(b, anyResponse)
			// A requester may send any rkey here, because the responder must ignore it
			// (C9-88). So the test forges this requester's READ too.
			next := func(h *wire.Headers) { h.PSN, h.VA, h.RKey = h.PSN.Add(1), b.addr, wire.RKey(key) }
			tr.forge(a, wire.RCReadRequest, next, sealRight)
			first := tr.nextResponse(b, patience(server))
			tr.forge(a, wire.RCReadRequest, next, sealRight)
			again := tr.nextResponse(b, patience(server))
			if !server.isKernel() && (first != "RC_RDMA_READ_RESPONSE_ONLY" || again != first) {
				tr.Errorf("rkey %s: answered with %s, and again with %s", which, first, again)
			}
			if server.isKernel() {
				tr.row.Settled += fmt.Sprintf("The duplicate of a READ of zero bytes with rkey %s is answered with %s.\n", which, again)
			}
		}
	})
	t.Run("READ of zero bytes, the response is lost", func(t *testing.T) {
		tr := begin(t, row{Section: "Duplicates", Case: "READ of zero bytes, the response is lost", Role: "client", Family: ipv4})
		a, b := tr.pair(lab.gorxe, lab.guest, ipv4, region, rc)
		barrier(a, b) // finds the address
		if _, err := lab.guest.sh("tc qdisc add dev eth0 root netem loss 100%"); err != nil {
			tr.Fatal(err)
		}
		a.do("send qp=0 op=%d mr=0 len=0 raddr=%d rkey=%s", opRead, b.addr, b.rkey)
		if _, err := lab.guest.sh("tc qdisc del dev eth0 root"); err != nil {
			tr.Fatal(err)
		}
		a.polled("READ", statusSuccess)
		barrier(a, b)
		tr.row.Note = "asked for again"
	})
	eachFamily(t, "Duplicates", "READ from its middle, then from its start", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, region, rc)
		b.do("fill mr=0 off=0 len=4096 seed=3")
		a.do("send qp=0 op=%d mr=0 off=0 len=4096 raddr=%d rkey=%s", opRead, b.addr, b.rkey)
		a.polled("READ", statusSuccess)
		first := tr.responses(b, isReadResponse)
		tr.forge(a, wire.RCReadRequest, func(h *wire.Headers) { h.PSN, h.VA, h.DMALen = h.PSN.Add(2), h.VA+2048, h.DMALen-2048 }, sealRight)
		barrier(a, b)
		second := tr.responses(b, isReadResponse)
		tr.forge(a, wire.RCReadRequest, again, sealRight)
		barrier(a, b)
		third := tr.responses(b, isReadResponse)
		if first != 4 || second-first != 2 {
			tr.Errorf("%d packets, then %d", first, second-first)
		}
		if server.isKernel() {
			tr.row.Settled = fmt.Sprintf("When a READ was asked for again from its middle, a later request from its start is %s.", answeredOrNot(third > second))
		} else if third-second != 4 {
			tr.Errorf("%d packets for the request from the start", third-second)
		}
		tr.row.Note = "the half is answered with 2 packets"
	})
	eachFamily(t, "Duplicates", "READ, again behind one of zero bytes", ipv4, func(tr *trial, server, client *machine) {
		a, b := tr.pair(client, server, tr.row.Family, region, rc)
		a.do("send qp=0 op=%d mr=0 off=0 len=4096 raddr=%d rkey=%s", opRead, b.addr, b.rkey)
		a.polled("READ", statusSuccess)
		tr.collect()
		long := tr.packets
		a.do("send qp=0 op=%d mr=0 len=0 raddr=%d rkey=0", opRead, b.addr)
		a.polled("READ", statusSuccess)
		tr.answered[b] = tr.responses(b, anyResponse)
		all := tr.packets
		tr.packets = long // the long one is its last
		tr.forge(a, wire.RCReadRequest, again, sealRight)
		tr.packets = append(all, tr.packets[len(long):]...)
		answer := tr.nextResponse(b, patience(server))
		if server.isKernel() {
			tr.row.Settled = fmt.Sprintf("A duplicate of a READ of 4 packets that comes behind a new READ of zero bytes is answered with %s.", answer)
		} else if answer != "RC_RDMA_READ_RESPONSE_FIRST" {
			tr.Errorf("answered with %s", answer)
		}
	})
}

func isReadResponse(q wire.Packet) bool { return q.Info().Flags&wire.OpReadResp != 0 }

func answeredOrNot(yes bool) string {
	if yes {
		return "answered"
	}
	return "dropped in silence"
}
