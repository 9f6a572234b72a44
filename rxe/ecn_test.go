package rxe

import (
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// sendMarked delivers packets that a switch has marked.
func (b *bench) sendMarked(pkts ...pkt) {
	b.mark = congested
	defer func() { b.mark = 0 }()
	b.send(pkts...)
}

func cnp(p wire.Packet) string {
	switch {
	case p.Opcode() != wire.OpCNP:
		return "is no CNP"
	case !p.BECN() || p.FECN() || p.PSN() != 0 || p.AckReq() || p.Solicited() || p.MigReq():
		return "has fields that a CNP has not"
	case p.DestQP() != benchPeerQP || p.PKey() != wire.DefaultPKey:
		return "is for another queue pair or partition"
	case len(p.Bytes()) != wire.BTHLen+16 || strings.Trim(string(p.Bytes()[wire.BTHLen:]), "\x00") != "":
		return "does not end with 16 zeros"
	}
	return ""
}

// The receiver of a marked packet sends a CNP, before it answers the packet. It sends no other one
// until min_time_between_cnps has passed. Packets that are not marked cause none.
func TestNotificationPoint(t *testing.T) {
	b := newBench(t, QPRC, nil)
	write := func(psn wire.PSN) pkt { return req(wire.RCWriteOnly, psn, []byte{1}, b.at(0, 1)) }
	ack := func(psn wire.PSN) check { return answerOf(wire.RCAck, wire.SyndromeACK, psn) }
	b.send(write(100))
	b.want(ack(100))
	b.sendMarked(write(101))
	b.want(cnp, ack(101))
	b.sendMarked(write(102), write(103))
	b.want(ack(103))
	b.clock.now += Time(50*time.Microsecond) - 1
	b.sendMarked(write(104))
	b.want(ack(104))
	b.clock.now++
	b.sendMarked(write(105))
	b.want(cnp, ack(105))
	b.clock.now += Time(time.Second)
	b.send(write(106))
	b.want(ack(106))
	if marked, sent := b.counter("np_ecn_marked_roce_packets"), b.counter("np_cnp_sent"); marked != 5 || sent != 2 {
		t.Errorf("%d packets were marked, and %d CNPs sent, want 5 and 2", marked, sent)
	}
}

// CNPs have their own DSCP and are not ECN-capable. What a connected queue pair sends is, with the
// DSCP of the address vector, and whatever ECN bits that has. With ECN off the program's bits pass,
// as in rdma_rxe. Datagrams have them always.
func TestTrafficClass(t *testing.T) {
	for _, tc := range []struct {
		name      string
		off       bool
		typ       QPType
		want, cnp uint8
	}{
		{"RC", false, QPRC, 0x68 | ecnCapable, 20 << 2},
		{"UC", false, QPUC, 0x68 | ecnCapable, 20 << 2},
		{"off", true, QPRC, 0x69, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.typ, func(a *QPAttr) { a.AH.TrafficClass = 0x69 })
			b.dev.ecn.Off, b.dev.ecn.CNPDSCP = tc.off, 20
			b.must(b.qp.Modify(&QPAttr{State: QPReset}, QPAttrState))
			b.toRTR(tc.typ, func(a *QPAttr) { a.AH.TrafficClass = 0x69 })
			b.must(b.qp.Modify(&QPAttr{State: QPRTS}, RequiredMask(tc.typ, QPRTR, QPRTS)))
			if a, _, err := b.qp.Query(); err != nil || a.AH.TrafficClass != 0x69 {
				t.Errorf("query returns traffic class %#x, %v", a.AH.TrafficClass, err)
			}
			_, err := b.qp.PostSend([]SendWR{{Op: WRSend, SGL: []SGE{{Addr: localVA, Length: 4, LKey: b.local.LKey()}}}})
			b.must(err)
			op := wire.RCWriteOnly
			if tc.typ == QPUC {
				op = wire.UCWriteOnly
			}
			b.sendMarked(req(op, benchPSN, []byte{1}, b.at(0, 1)))
			got := make(map[bool]uint8)
			for _, burst := range b.link.bursts {
				got[wire.Opcode(burst.Buf[0]) == wire.OpCNP] = burst.Route.TrafficClass
			}
			if got[false] != tc.want || got[true] != tc.cnp {
				t.Errorf("traffic class %#x, and %#x of CNPs, want %#x and %#x", got[false], got[true], tc.want, tc.cnp)
			}
		})
	}
}

// A datagram's sender has no rate. Its mark is only counted, and so is a CNP for a UD queue pair.
func TestECNOfDatagrams(t *testing.T) {
	b := newBench(t, QPUD, nil)
	b.post(1, 0, 64)
	b.sendMarked(pkt{h: wire.Headers{Opcode: wire.UDSendOnly, PSN: 1, QKey: benchQKey, SrcQP: 5}, data: []byte{1}})
	b.send(pkt{h: wire.Headers{Opcode: wire.OpCNP, BECN: true}, data: make([]byte, 16)})
	b.want()
	b.wantCounters(map[string]uint64{"np_ecn_marked_roce_packets": 1, "np_cnp_sent": 0, "rp_cnp_handled": 0, "rp_cnp_ignored": 1})
}

// With ECN off, marks are counted and not answered, and CNPs are ignored.
func TestECNOff(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.dev.ecn.Off = true
	b.sendMarked(req(wire.RCWriteOnly, 100, []byte{1}, b.at(0, 1)))
	b.want(answerOf(wire.RCAck, wire.SyndromeACK, 100))
	b.send(pkt{h: wire.Headers{Opcode: wire.OpCNP, BECN: true}, data: make([]byte, 16)})
	b.want()
	b.wantCounters(map[string]uint64{"np_ecn_marked_roce_packets": 1, "np_cnp_sent": 0, "rp_cnp_handled": 0, "rp_cnp_ignored": 1})
	if b.qp.Snapshot().Rate != 0 {
		t.Error("the sender is limited")
	}
}

func (b *bench) wantCounters(want map[string]uint64) {
	b.t.Helper()
	for name, n := range want {
		if got := b.counter(name); got != n {
			b.t.Errorf("%s is %d, want %d", name, got, n)
		}
	}
}

// A CNP counts from RTR on, because a responder sends data. It has no other effect than a limit,
// and that ends with the connection. CNPs of other hosts and partitions are dropped.
func TestCNPReceived(t *testing.T) {
	b := newBench(t, QPRC, nil)
	note := pkt{h: wire.Headers{Opcode: wire.OpCNP, BECN: true}, data: make([]byte, 16)}
	b.from = benchThere3
	b.send(note)
	b.from = benchThere
	b.wantCounters(map[string]uint64{"rp_cnp_handled": 0, "drop_bad_addr": 1})
	b.send(note)
	b.want()
	b.wantCounters(map[string]uint64{"rp_cnp_handled": 1, "drop_bad_type": 0})
	if b.qp.Snapshot().Rate == 0 {
		t.Error("the sender is not limited")
	}
	b.must(b.qp.Modify(&QPAttr{State: QPReset}, QPAttrState))
	if b.qp.Snapshot().Rate != 0 {
		t.Error("the limit is still there after RESET")
	}
	b.send(note)
	b.wantCounters(map[string]uint64{"rp_cnp_handled": 1, "drop_bad_state": 1})
}

// A CNP that a switch has marked is not answered with a CNP. Two notification points would
// otherwise answer each other without end.
func TestMarkedCNP(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.sendMarked(pkt{h: wire.Headers{Opcode: wire.OpCNP, BECN: true}, data: make([]byte, 16)})
	b.want()
	b.wantCounters(map[string]uint64{"np_ecn_marked_roce_packets": 1, "np_cnp_sent": 0, "rp_cnp_handled": 1})
	b.sendMarked(req(wire.RCWriteOnly, 100, []byte{1}, b.at(0, 1)))
	b.want(cnp, answerOf(wire.RCAck, wire.SyndromeACK, 100))
}

// New refuses parameters out of their range, and names them.
func TestECNParams(t *testing.T) {
	e := DefaultECN()
	if err := e.Check(); err != nil {
		t.Error(err)
	}
	for i, p := range e.Params() {
		for _, v := range []int{p.Min - 1, p.Max + 1} {
			bad := DefaultECN()
			*bad.Params()[i].Value = v
			_, err := New(Config{Link: &captureLink{}, Clock: &armRecorder{}, ECN: &bad})
			if err == nil || !strings.Contains(err.Error(), p.Name) {
				t.Errorf("%s=%d: %v", p.Name, v, err)
			}
		}
	}
}

// limit is a limit of rate bytes a second that does not rise.
func limit(b *bench, rate int64) {
	b.dev.ecn.RateTimer = 1_000_000_000
	b.qp.rate = reaction{rate: rate, target: rate, line: rate << 10, params: &b.dev.ecn, left: 1 << 40, creditAt: b.clock.now,
		timerAt: b.clock.now, alphaAt: b.clock.now}
}

// sentOver runs deadlines for a time, and returns the payload that was sent meanwhile, and the
// most at once.
func (b *bench) sentOver(d time.Duration) (bytes, most int) {
	end := b.clock.now + Time(d)
	for b.clock.armed != 0 && b.clock.armed < end {
		b.clock.now, b.clock.armed = max(b.clock.now, b.clock.armed), 0
		b.dev.Expire()
		step := 0
		for _, p := range b.take() {
			step += len(p.Payload())
		}
		bytes, most = bytes+step, max(most, step)
	}
	b.clock.now = end
	return bytes, most
}

// A limited sender keeps its rate, within a packet, in small bursts.
func TestLimitedRequester(t *testing.T) {
	for _, typ := range []QPType{QPRC, QPUC} {
		b := newBench(t, typ, nil)
		b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7}, RequiredMask(typ, QPRTR, QPRTS)))
		const rate = 20_000_000
		limit(b, rate)
		for range 8 {
			_, err := b.qp.PostSend([]SendWR{{Op: WRWrite, RemoteAddr: remoteVA, SGL: []SGE{{Addr: localVA, Length: localLen, LKey: b.local.LKey()}}}})
			b.must(err)
		}
		got, most := b.sentOver(5 * time.Millisecond)
		// Headers count as well: 12 bytes for 256.
		if want := rate / 200 * benchMTU / (benchMTU + wire.BTHLen); got < want-10*benchMTU || got > want+10*benchMTU || most > rate/10000+3*benchMTU {
			t.Errorf("%v: sent %d bytes in 5 ms, %d at once, want %d", typ, got, most, want)
		}
	}
}

// READ responses keep the rate as well. Acknowledgements do not wait.
func TestLimitedResponder(t *testing.T) {
	b := newBench(t, QPRC, nil)
	const rate = 20_000_000
	limit(b, rate)
	b.send(req(wire.RCWriteOnly, 100, []byte{1}, b.at(0, 1)))
	b.want(answerOf(wire.RCAck, wire.SyndromeACK, 100))
	b.fill()
	b.send(req(wire.RCReadRequest, 101, nil, b.at(0, remoteLen)))
	got, most := b.sentOver(500 * time.Microsecond)
	if want := rate / 2000; got < want-10*benchMTU || got > want+10*benchMTU || most > rate/10000+3*benchMTU {
		t.Errorf("sent %d bytes in 500 µs, %d at once, want %d", got, most, want)
	}
	rest, _ := b.sentOver(time.Millisecond)
	if got+rest != remoteLen {
		t.Errorf("%d bytes of the READ arrived, want %d", got+rest, remoteLen)
	}
}

// The limit holds for what a queue pair sends. The data of a READ is sent by its peer, so a READ
// does not wait until earlier ones are answered.
func TestLimitedReads(t *testing.T) {
	b := newBench(t, QPRC, nil)
	b.must(b.qp.Modify(&QPAttr{State: QPRTS, RetryCnt: 7, MaxRdAtomic: 4}, RequiredMask(QPRC, QPRTR, QPRTS)))
	limit(b, 1_000_000)
	for range 3 {
		_, err := b.qp.PostSend([]SendWR{{Op: WRRead, RemoteAddr: remoteVA, SGL: []SGE{{Addr: localVA, Length: 16 * benchMTU, LKey: b.local.LKey()}}}})
		b.must(err)
	}
	reads := 0
	for range 50 {
		b.clock.now += Time(10 * time.Microsecond)
		b.dev.Expire()
		reads += len(b.take())
	}
	if reads != 3 {
		t.Errorf("%d of 3 READs were sent", reads)
	}
}
