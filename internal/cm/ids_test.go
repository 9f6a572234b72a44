package cm

import (
	"testing"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// TestIDs: comm IDs are not drawn twice, are not 0, and are spread over all bits.
func TestIDs(t *testing.T) {
	n := newNode(t, 1, "192.0.2.1")
	seen := make(map[uint32]bool)
	var ones [32]int
	const draws = 1 << 16
	for range draws {
		id := n.m.ids.draw()
		if id == 0 || seen[id] {
			t.Fatalf("ID %#x", id)
		}
		seen[id] = true
		for bit := range ones {
			ones[bit] += int(id >> bit & 1)
		}
	}
	for bit, count := range ones {
		if count < draws*45/100 || count > draws*55/100 {
			t.Errorf("bit %d is set in %d of %d IDs", bit, count, draws)
		}
	}
	// The permutation has an inverse, so that no two of all 2^32 draws are equal: each
	// round can be undone.
	s := n.m.ids
	for v := uint32(0); v < 1<<16; v++ {
		left, right := uint16(s.permute(v)>>16), uint16(s.permute(v))
		for i := len(s.keys) - 1; i >= 0; i-- {
			left, right = right^mix(left, s.keys[i]), left
		}
		if uint32(left)<<16|uint32(right) != v {
			t.Fatalf("%#x does not come back", v)
		}
	}
	// An ID that is in use is not drawn again, even after 2^32 draws.
	client, server := pair(t)
	c := client.connect(server)
	client.m.ids.next--
	if id := client.connect(server).LocalCommID(); id == c.LocalCommID() {
		t.Errorf("two connections have the ID %#x", id)
	}
}

// TestPSNs: a PSN that was not chosen is random; a chosen one is announced.
func TestPSNs(t *testing.T) {
	client, server := pair(t)
	seen := make(map[wire.PSN]bool)
	for range 32 {
		client.connect(server)
		psn := wire.CMREQ{MAD: client.take(wire.AttrREQ)}.StartingPSN()
		if seen[psn] || psn > wire.PSNMask {
			t.Errorf("PSN %#x", psn)
		}
		seen[psn] = true
	}
	p := client.connectParams(server)
	p.StartingPSN = 0x777
	_, err := client.m.Connect(0, p, nil)
	client.noError(err)
	if psn := (wire.CMREQ{MAD: client.take(wire.AttrREQ)}).StartingPSN(); psn != 0x777 {
		t.Errorf("PSN %#x", psn)
	}
	r := newPeerRig(t)
	r.passive()
	r.noError(r.c.Accept(r.now, &AcceptParams{QPN: 1, StartingPSN: 0x888}))
	a, _, err := r.c.QPAttr(rxe.QPRTR)
	r.noError(err)
	if psn := parsed(t, r.take(wire.AttrREP)).(wire.CMREP).StartingPSN(); psn != 0x888 || a.RQPSN != 0x888 {
		t.Errorf("PSN %#x announced, %#x expected", psn, a.RQPSN)
	}
}

// TestTIDs: an answer repeats the transaction identifier of the REQ, or of the DREQ.
// TestLikeLinux has the others.
func TestTIDs(t *testing.T) {
	r := newPeerRig(t)
	r.passive()
	r.from(r.req())
	check := func(a wire.CMAttribute, want uint64) {
		t.Helper()
		if tid := r.take(a).TID(); tid != want {
			t.Errorf("%v has transaction identifier 0x%016x, want 0x%016x", a, tid, want)
		}
	}
	check(wire.AttrMRA, peerTID)
	r.noError(r.c.Accept(r.now, acceptParams()))
	check(wire.AttrREP, peerTID)
	r.from(r.rtu())
	r.from(r.dreq())
	r.c.Destroy(r.now)
	check(wire.AttrDREP, peerTID+1)
	r.from(r.dreq())
	check(wire.AttrDREP, peerTID+1)
	r.passive()
	r.noError(r.c.Reject(r.now, wire.RejectConsumer, nil, nil))
	check(wire.AttrREJ, peerTID)
	r.m.Close(r.now)
	r.gone()
}

// TestDuplicates: the counters of duplicates, as Linux counts them.
func TestDuplicates(t *testing.T) {
	r := newPeerRig(t)
	r.passive()
	r.from(r.req())
	r.noError(r.c.Accept(r.now, acceptParams()))
	r.from(r.mra(wire.CMSubjectREP))
	r.from(r.mra(wire.CMSubjectREP))
	r.from(r.rtu())
	r.from(r.rtu())
	r.from(r.rtu())
	r.from(r.dreq())
	r.from(r.dreq())
	r.noError(r.c.Disconnect(r.now))
	r.from(r.dreq())
	r.c.Destroy(r.now)
	r.from(r.dreq())
	r.from(r.sidrREQ())
	r.from(r.sidrREQ())
	want := map[wire.CMAttribute]uint64{
		wire.AttrREQ: 1, wire.AttrMRA: 1, wire.AttrRTU: 2, wire.AttrDREQ: 3, wire.AttrSIDRREQ: 1,
	}
	c := r.m.Counters()
	for a := wire.AttrREQ; a <= wire.AttrAPR; a++ {
		if got := c.RxDuplicates.Of(a); got != want[a] {
			t.Errorf("%d duplicates of %v, want %d", got, a, want[a])
		}
	}
	if c.RxMsgs.Of(wire.AttrDREQ) != 4 || c.RxMsgs.Of(wire.AttrRTU) != 3 || c.TxMsgs.Of(wire.AttrDREP) != 3 || c.TxMsgs.Of(wire.AttrMRA) != 1 {
		t.Errorf("counters %+v", c)
	}
}

// TestOwnDevice: a device connects to itself.
func TestOwnDevice(t *testing.T) {
	n := newNode(t, 1, "192.0.2.1")
	n.listen()
	active := n.connect(n)
	n.receive(n, n.take(wire.AttrREQ))
	passive := n.taken[0]
	n.noError(passive.Accept(n.now, acceptParams()))
	n.receive(n, n.take(wire.AttrREP))
	n.event(EventReply)
	n.noError(active.Ready(n.now))
	n.receive(n, n.take(wire.AttrRTU))
	n.event(EventReady)
	consistent(t, n.m)
	n.m.Close(n.now)
	n.gone()
}

// TestCrossedDREQs: both sides disconnect at once, and both DREQs arrive.
func TestCrossedDREQs(t *testing.T) {
	client, server, active, passive := connected(t)
	client.noError(active.Disconnect(client.now))
	server.noError(passive.Disconnect(server.now))
	fromClient, fromServer := client.take(wire.AttrDREQ), server.take(wire.AttrDREQ)
	server.receive(client, fromClient)
	client.receive(server, fromServer)
	client.event(EventDisconnect)
	server.event(EventDisconnect)
	client.noError(active.Disconnect(client.now))
	server.receive(client, client.take(wire.AttrDREP))
	server.event(EventDisconnected)
	server.state(passive, StateTimewait)
	client.state(active, StateTimewait)
}
