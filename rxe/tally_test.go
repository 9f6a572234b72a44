package rxe

import (
	"maps"
	"testing"

	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/wire"
)

// opcodeLink is a pipe that reads the opcode of each packet.
type opcodeLink struct {
	Link
	seen map[wire.Opcode]uint64
}

func (l *opcodeLink) Send(bursts []wire.Burst) {
	for i := range bursts {
		l.count(&bursts[i])
	}
	l.Link.Send(bursts)
}

func (l *opcodeLink) count(b *wire.Burst) {
	for at := 0; at < len(b.Buf); at += b.Seg {
		l.seen[wire.Opcode(b.Buf[at])]++
	}
}

// sentAndReceived returns the device's counters as maps.
func sentAndReceived(d *Device) (sent, rcvd map[wire.Opcode]uint64) {
	sent, rcvd = make(map[wire.Opcode]uint64), make(map[wire.Opcode]uint64)
	for _, c := range d.PacketCounts() {
		if c.Sent > 0 {
			sent[c.Opcode] = c.Sent
		}
		if c.Received > 0 {
			rcvd[c.Opcode] = c.Received
		}
	}
	return sent, rcvd
}

func wantPackets(t *testing.T, what string, got, want map[wire.Opcode]uint64) {
	t.Helper()
	if len(want) == 0 || !maps.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// everyOperation posts each operation of RC from q to peer, with messages of one packet and
// of several, and signals only the last.
func everyOperation(t *testing.T, q *QP, local *MR, peer *QP, remote *MR) {
	t.Helper()
	recv := []SGE{{Addr: 200_000, Length: 20_000, LKey: remote.LKey()}}
	_, err := peer.PostRecv([]RecvWR{{SGL: recv}, {SGL: recv}, {SGL: recv}, {SGL: recv}})
	must.OK(t, err)
	wrs := []SendWR{
		{Op: WRSend, SGL: []SGE{{Addr: 0, Length: 10_000, LKey: local.LKey()}}},
		{Op: WRSendImm, SGL: []SGE{{Addr: 0, Length: 1, LKey: local.LKey()}}},
		{Op: WRWrite, SGL: []SGE{{Addr: 0, Length: 10_000, LKey: local.LKey()}}},
		{Op: WRWrite, SGL: []SGE{{Addr: 0, Length: 1500, LKey: local.LKey()}}},
		{Op: WRWriteImm, SGL: []SGE{{Addr: 0, Length: 8, LKey: local.LKey()}}},
		{Op: WRWriteImm, SGL: []SGE{{Addr: 0, Length: 3000, LKey: local.LKey()}}},
		{Op: WRRead, SGL: []SGE{{Addr: 50_000, Length: 10_000, LKey: local.LKey()}}},
		{Op: WRRead, SGL: []SGE{{Addr: 50_000, Length: 8, LKey: local.LKey()}}},
		{Op: WRFetchAdd, SGL: []SGE{{Addr: 50_000, Length: 8, LKey: local.LKey()}}},
		{Op: WRCompareSwap, SGL: []SGE{{Addr: 50_000, Length: 8, LKey: local.LKey()}}, Flags: SendSignaled},
	}
	for i := range wrs {
		wrs[i].RemoteAddr, wrs[i].RKey = 100_000, remote.RKey()
	}
	_, err = q.PostSend(wrs)
	must.OK(t, err)
}

func wantWork(t *testing.T, d *Device, want map[string]uint64) {
	t.Helper()
	got := make(map[string]uint64)
	for _, c := range d.WorkCounts() {
		got[c.Name] = c.Value
	}
	if !maps.Equal(got, want) {
		t.Errorf("work requests of %s:\n got %v\nwant %v", d.Name(), got, want)
	}
}

var (
	workOfRequester = map[string]uint64{"SEND": 1, "SEND_WITH_IMM": 1, "RDMA_WRITE": 2, "RDMA_WRITE_WITH_IMM": 2,
		"RDMA_READ": 2, "ATOMIC_FETCH_AND_ADD": 1, "ATOMIC_CMP_AND_SWP": 1}
	workOfResponder = map[string]uint64{"RECV": 2, "RECV_RDMA_WITH_IMM": 2}
)

// TestPacketsByOpcode compares the counters of two devices with the packets between them.
func TestPacketsByOpcode(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	ab := &opcodeLink{p.a.dev.cfg.Link, make(map[wire.Opcode]uint64)}
	ba := &opcodeLink{p.b.dev.cfg.Link, make(map[wire.Opcode]uint64)}
	p.a.dev.cfg.Link, p.b.dev.cfg.Link = ab, ba
	everyOperation(t, p.a.qps[0], p.a.mr, p.b.qps[0], p.b.mr)
	p.pump()
	sent, rcvd := sentAndReceived(p.a.dev)
	wantPackets(t, "requests sent", sent, ab.seen)
	wantPackets(t, "responses received", rcvd, ba.seen)
	sent, rcvd = sentAndReceived(p.b.dev)
	wantPackets(t, "responses sent", sent, ba.seen)
	wantPackets(t, "requests received", rcvd, ab.seen)
	wantWork(t, p.a.dev, workOfRequester)
	wantWork(t, p.b.dev, workOfResponder)
}

// TestSuperPacketsByOpcode compares with the packets that a tap sees. Super-packets count as
// the packets that they stand for.
func TestSuperPacketsByOpcode(t *testing.T) {
	tap := &opcodeLink{nil, make(map[wire.Opcode]uint64)}
	var supers bool
	for _, change := range []func(*Config){func(c *Config) { c.Tap = tap.count }, nil} {
		d := newLocalPair(t, 1, 1<<20, 1024, change)
		supers = d.qps[0].sendsSuperPackets()
		everyOperation(t, d.qps[0], d.mr, d.qps[1], d.mr)
		sent, rcvd := sentAndReceived(d.dev)
		wantPackets(t, "sent", sent, tap.seen)
		wantPackets(t, "received", rcvd, tap.seen)
		want := maps.Clone(workOfRequester)
		maps.Copy(want, workOfResponder)
		wantWork(t, d.dev, want)
	}
	if !supers {
		t.Error("there are no super-packets")
	}
}

// TestFailedWorkIsNotCounted: only work requests that completed with success count.
func TestFailedWorkIsNotCounted(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	sgl := []SGE{{Addr: 0, Length: 8, LKey: p.a.mr.LKey()}}
	_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRWrite, SGL: sgl, RKey: p.b.mr.RKey()}, {Op: WRWrite, SGL: sgl, RKey: 1}})
	must.OK(t, err)
	p.pump()
	wantWork(t, p.a.dev, map[string]uint64{"RDMA_WRITE": 1})
}

// TestFailedWork: each completion with an error is counted for its queue and its status, and so are
// the requests that are flushed after it.
func TestFailedWork(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	q := p.a.qps[0]
	sgl := []SGE{{Addr: 0, Length: 8, LKey: p.a.mr.LKey()}}
	_, err := q.PostRecv([]RecvWR{{ID: 9}})
	must.OK(t, err)
	_, err = q.PostSend([]SendWR{{Op: WRWrite, SGL: sgl, RKey: 1}, {Op: WRWrite, SGL: sgl, RKey: p.b.mr.RKey()}})
	must.OK(t, err)
	p.pump()
	for _, want := range []struct {
		receives bool
		status   WCStatus
		n        uint64
	}{
		{false, WCRemAccessErr, 1}, {false, WCFlushErr, 1}, {true, WCFlushErr, 1}, {true, WCRemAccessErr, 0},
		{false, WCSuccess, 0}, {false, WCStatus(200), 0},
	} {
		if n := p.a.dev.FailedWork(want.receives, want.status); n != want.n {
			t.Errorf("receives %t, %v: %d, want %d", want.receives, want.status, n, want.n)
		}
	}
}

// TestAckTimeouts: the last timeout, after which the queue pair fails, is counted too.
func TestAckTimeouts(t *testing.T) {
	p := newPair(t, 1, 1<<20, 1024)
	_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRWrite}})
	must.OK(t, err)
	for range 20 {
		p.a.link.queue, p.a.link.ends, p.a.link.buf = nil, nil, nil
		p.clock.now += Time(ackTimeout(14)) * 2
		p.a.dev.Expire()
	}
	if n := p.a.dev.FailedWork(false, WCRetryExcErr); n != 1 {
		t.Fatalf("%d requests failed for want of an answer, want 1", n)
	}
	counters := make(map[string]uint64)
	for _, c := range p.a.dev.Counters() {
		counters[c.Name] = c.Value
	}
	if counters["ack_timeout"] != counters["retry_timeout"]+1 || counters["ack_timeout"] == 1 {
		t.Errorf("%d timeouts, %d retries", counters["ack_timeout"], counters["retry_timeout"])
	}
}

// TestRetriesByCause brings about each cause of a retry once.
func TestRetriesByCause(t *testing.T) {
	for name, cause := range map[string]func(t *testing.T, p *pair){
		"retry_rnr_nak": func(t *testing.T, p *pair) {
			_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRSend}})
			must.OK(t, err)
			p.pump()
		},
		"retry_timeout": func(t *testing.T, p *pair) {
			_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRWrite}})
			must.OK(t, err)
			p.a.link.queue, p.a.link.ends, p.a.link.buf = nil, nil, nil
			p.clock.now += Time(ackTimeout(14)) * 2
			p.a.dev.Expire()
		},
		"retry_sequence_nak": func(t *testing.T, p *pair) {
			_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRWrite}})
			must.OK(t, err)
			p.a.link.queue, p.a.link.ends, p.a.link.buf = nil, nil, nil
			_, err = p.a.qps[0].PostSend([]SendWR{{Op: WRWrite}})
			must.OK(t, err)
			p.pump()
		},
		"retry_implied_nak": func(t *testing.T, p *pair) {
			sgl := []SGE{{Addr: 0, Length: 8, LKey: p.a.mr.LKey()}}
			_, err := p.a.qps[0].PostSend([]SendWR{{Op: WRRead, SGL: sgl, RKey: p.b.mr.RKey()}})
			must.OK(t, err)
			p.a.link.deliver(&p.spare)
			p.b.link.queue, p.b.link.ends, p.b.link.buf = nil, nil, nil
			_, err = p.a.qps[0].PostSend([]SendWR{{Op: WRWrite}})
			must.OK(t, err)
			p.pump()
		},
	} {
		p := newPair(t, 1, 1<<20, 1024)
		cause(t, p)
		for _, c := range p.a.dev.Counters() {
			switch c.Name {
			case "retry_rnr_nak", "retry_timeout", "retry_sequence_nak", "retry_implied_nak":
				want := uint64(0)
				if c.Name == name {
					want = 1
				}
				if c.Value != want {
					t.Errorf("%s: %s is %d, want %d", name, c.Name, c.Value, want)
				}
			}
		}
	}
}
