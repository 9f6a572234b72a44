package replay

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/cm"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// dialogues are the ways in which connection managers talk.
var dialogues = map[string]func(d *dialogue){
	"connection": func(d *dialogue) { d.established(); d.disconnected() },
	"REQ lost twice": func(d *dialogue) {
		d.connect()
		d.lose()
		d.wait(d.a)
		d.lose()
		d.wait(d.a)
		d.listen()
		d.deliver()
		d.accept()
		d.deliver()
	},
	"nobody listens": func(d *dialogue) { d.connect(); d.deliver() },
	"refused at once": func(d *dialogue) {
		d.verdict = cm.Refuse{Reason: wire.RejectConsumer, Data: []byte("no")}
		d.listen()
		d.connect()
		d.deliver()
	},
	"refused later": func(d *dialogue) {
		d.listen()
		d.connect()
		d.deliver()
		d.check(d.accepted.Reject(d.now, wire.RejectConsumer, nil, []byte("no")))
		d.deliver()
	},
	"reply refused": func(d *dialogue) {
		d.listen()
		d.connect()
		d.deliver()
		d.accept()
		d.deliver()
		d.check(d.conn.Reject(d.now, wire.RejectConsumer, []byte{1}, nil))
		d.deliver()
	},
	"killed with a REQ sent": func(d *dialogue) { d.listen(); d.connect(); d.deliver(); d.conn.Destroy(d.now); d.deliver() },
	"slow answer": func(d *dialogue) { // an MRA for the REQ that comes again
		d.listen()
		d.connect()
		d.deliver()
		d.wait(d.a)
		d.deliver()
		d.accept()
		d.deliver()
	},
	"crossing DREQs": func(d *dialogue) {
		d.established()
		d.check(d.conn.Disconnect(d.now))
		d.check(d.accepted.Disconnect(d.now))
		d.deliver()
		d.check(d.conn.Disconnect(d.now))
		d.check(d.accepted.Disconnect(d.now))
		d.deliver()
	},
	"lookup": func(d *dialogue) { d.listen(); d.lookup(); d.deliver(); d.accept(); d.deliver() },
	"lookup, again": func(d *dialogue) {
		d.listen()
		d.lookup()
		d.lose()
		d.wait(d.a)
		d.deliver()
		d.accept()
		d.deliver()
	},
	"no service": func(d *dialogue) { d.lookup(); d.deliver() },
	"lookup refused": func(d *dialogue) {
		d.listen()
		d.lookup()
		d.deliver()
		d.check(d.accepted.Reject(d.now, 0, nil, []byte("no")))
		d.deliver()
	},
}

// TestManagers: the connection manager repeats its own dialogues, seen by the capture.
func TestManagers(t *testing.T) {
	for name, talk := range dialogues {
		t.Run(name, func(t *testing.T) {
			d := newDialogue(t)
			talk(d)
			compared := 0
			for _, s := range d.replayed() {
				compared += s.Compared
				for i := range s.Differences {
					t.Errorf("%s: %v", s.Flow, &s.Differences[i])
				}
			}
			if compared != len(d.captured) {
				t.Errorf("compared %d of %d messages", compared, len(d.captured))
			}
		})
	}
}

// TestManagersDifferent: a change of a message is found: any byte that the connection manager
// decides on, or a message without a reason.
func TestManagersDifferent(t *testing.T) {
	byteOf := func(i, at int) func(d *dialogue) { return func(d *dialogue) { d.captured[i].mad[at] ^= 0x11 } }
	data := wire.MADHeaderLen
	for name, tt := range map[string]struct {
		dialogue string
		change   func(d *dialogue)
		about    string
	}{
		"retries of the REQ":    {"connection", byteOf(0, data+51), "REQ"},
		"alternate path":        {"connection", byteOf(0, data+100), "REQ"},
		"TID of the REP":        {"connection", byteOf(1, 15), "REP"},
		"EECN of the REP":       {"connection", byteOf(1, data+18), "REP"},
		"TID of the RTU":        {"connection", byteOf(2, 15), "RTU"},
		"data of the RTU":       {"connection", byteOf(2, data+30), "RTU"},
		"queue pair":            {"connection", byteOf(3, data+10), "DREQ"},
		"TID of the DREP":       {"connection", byteOf(4, 15), "DREP"},
		"status of a MAD":       {"connection", byteOf(4, 5), "DREP"},
		"resent with changes":   {"REQ lost twice", byteOf(2, data+139), "REQ"},
		"which is rejected":     {"refused at once", byteOf(1, data+8), "REJ"},
		"who rejects":           {"reply refused", byteOf(2, data+8), "REJ"},
		"GUID of a withdrawal":  {"killed with a REQ sent", byteOf(1, data+19), "REJ"},
		"time of an MRA":        {"slow answer", byteOf(2, data+9), "MRA"},
		"service of the answer": {"lookup", byteOf(1, data+15), "SIDR_REP"},
		"TID of the answer":     {"lookup", byteOf(1, 15), "SIDR_REP"},
		"RTU before the REP":    {"connection", func(d *dialogue) { d.captured = slices.Delete(d.captured, 1, 2) }, "RTU"},
		"DREP without a DREQ":   {"connection", func(d *dialogue) { d.captured = slices.Delete(d.captured, 3, 4) }, "DREP"},
		"REP without a REQ, by the wrong side": {"nobody listens", func(d *dialogue) {
			m := spoken{fromA: true, psn: 0x77}
			m.mad.InitREP(1).SetCommIDs(d.conn.LocalCommID(), 5)
			d.captured = append(d.captured, m)
		}, "REP"},
		"a REQ again, unanswered and too often": {"nobody listens", func(d *dialogue) {
			d.captured = d.captured[:1]
			for i := range 20 {
				again := d.captured[0]
				again.psn += wire.PSN(i + 1)
				d.captured = append(d.captured, again)
			}
		}, "REQ"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDialogue(t)
			dialogues[tt.dialogue](d)
			tt.change(d)
			found := false
			for _, s := range d.replayed() {
				for i := range s.Differences {
					found = found || s.Differences[i].About == tt.about && s.Differences[i].Explained == ""
				}
			}
			if !found {
				t.Errorf("no unexplained difference about a %s", tt.about)
			}
		})
	}
}

// TestManagersExplained: what the network does to messages is no difference, or an explained
// one.
func TestManagersExplained(t *testing.T) {
	for name, tt := range map[string]struct {
		talk      func(d *dialogue)
		explained string // "" if there is no difference
		free      string
	}{
		"REP lost": {func(d *dialogue) {
			d.listen()
			d.connect()
			d.deliver()
			d.accept()
			d.lose()
			d.wait(d.a)
			d.deliver()
		}, whyLostAnswer, ""},
		"RTU lost": {func(d *dialogue) {
			d.listen()
			d.connect()
			d.deliver()
			d.accept()
			d.deliver()
			d.check(d.conn.Ready(d.now))
			d.lose()
			d.wait(d.b)
			d.deliver()
			d.disconnected()
		}, whyLostAnswer, ""},
		"DREP lost": {func(d *dialogue) {
			d.established()
			d.check(d.conn.Disconnect(d.now))
			d.deliver()
			d.check(d.accepted.Disconnect(d.now))
			d.lose()
			d.wait(d.a)
			d.deliver()
		}, whyLostAnswer, ""},
		"repetition that the capture lacks": {func(d *dialogue) {
			d.established()
			d.check(d.conn.Disconnect(d.now))
			d.deliver()
			d.check(d.accepted.Disconnect(d.now))
			d.lose()
			d.wait(d.a)
			d.queue[0].fromA = true
			dreq := d.queue[0].mad
			d.queue = nil
			d.b.Receive(d.now, rxe.AHAttr{DGID: wire.GIDFromAddr(addrA), PortNum: 1}, &dreq)
			d.deliver()
		}, whyAnswerAgain, ""},
		"doubled": {func(d *dialogue) {
			d.established()
			d.disconnected()
			var twice []spoken
			for _, m := range d.captured {
				twice = append(twice, m, m)
			}
			d.captured = twice
		}, "", "messages that the network doubled"},
		"answer lost before the capture": {func(d *dialogue) {
			d.listen()
			d.connect()
			d.deliver()
			d.wait(d.a)
			d.lose() // and no MRA
			d.accept()
			d.deliver()
		}, "", "answers that the capture lacks"},
		"an early MRA": {func(d *dialogue) {
			d.listen()
			d.connect()
			d.deliver()
			m := spoken{psn: 0x99}
			mra := m.mad.InitMRA(d.captured[0].mad.TID())
			mra.SetCommIDs(d.accepted.LocalCommID(), d.conn.LocalCommID())
			d.captured = append(d.captured, m)
		}, whyNoMRA, ""},
		"an alternate path": {func(d *dialogue) {
			d.established()
			m := spoken{fromA: true, psn: 0x99}
			lap := m.mad.InitLAP(d.captured[0].mad.TID())
			lap.SetCommIDs(d.conn.LocalCommID(), d.accepted.LocalCommID())
			d.captured = append(d.captured, m)
		}, whyNoPaths, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDialogue(t)
			tt.talk(d)
			explained, free := 0, 0
			for _, s := range d.replayed() {
				free += s.Free[tt.free]
				for i := range s.Differences {
					if x := &s.Differences[i]; x.Explained != tt.explained {
						t.Errorf("%s: %v", s.Flow, x)
					}
					explained++
				}
			}
			if (explained > 0) != (tt.explained != "") || (free > 0) != (tt.free != "") {
				t.Errorf("%d explained, %d free", explained, free)
			}
		})
	}
}

// TestTalks: numbers that are used again, or by both sides, make talks of their own. What has
// no request is listed.
func TestTalks(t *testing.T) {
	d := newDialogue(t)
	d.established()
	first := slices.Clone(d.captured)
	for i := range first { // the same numbers, another transaction
		first[i].mad.SetTID(first[i].mad.TID() + 1<<40)
	}
	back := slices.Clone(first)
	for i := range back { // the other side uses the number of the active one
		back[i].fromA = !back[i].fromA
		if req, ok := parsed(&back[i].mad).(wire.CMREQ); ok { // its path begins at the sender
			path := req.PrimaryPath()
			path.LocalGID, path.RemoteGID = path.RemoteGID, path.LocalGID
			req.SetPrimaryPath(&path)
		}
	}
	d.captured = append(append(d.captured, first...), back...)
	if got := d.replayed(); len(got) != 6 {
		t.Errorf("%d sessions", len(got))
	} else if !strings.Contains(got[5].Flow, "10.0.0.2 > 10.0.0.1") || got[5].Compared != 1 {
		t.Errorf("the last one is %+v", got[5])
	}

	all := newTalks()
	send := func(fill func(m *wire.MAD)) {
		var m wire.MAD
		fill(&m)
		h := wire.Headers{Opcode: wire.UDSendOnly, DestQP: wire.GSIQPN, QKey: wire.GSIQKey, SrcQP: wire.GSIQPN}
		pkt, err := wire.Parse(append(h.Append(nil), m[:]...))
		if err != nil {
			t.Fatal(err)
		}
		all.add(1, addrA, addrB, pkt)
	}
	send(func(m *wire.MAD) { m.InitRTU(1).SetCommIDs(1, 2) })
	send(func(m *wire.MAD) { m.InitSIDRREP(1).SetRequestID(7) })
	for i := range uint32(maxTalks + 3) {
		send(func(m *wire.MAD) { m.InitREQ(uint64(i)).SetLocalCommID(i) })
	}
	if all.orphans != 2 || all.tooMany != 3 || len(all.all) != maxTalks || len(all.skipped()) != 2 {
		t.Errorf("%d without a request, %d too many, %d talks", all.orphans, all.tooMany, len(all.all))
	}
}

// FuzzManagers: no messages make the replay of a connection manager fail.
func FuzzManagers(f *testing.F) {
	f.Add([]byte{0x10, 0x13, 0x14, 0x15, 0x16}, uint64(3))
	f.Add([]byte{0x90, 0x93, 0x17, 0x98, 0x12, 0x11}, uint64(1<<60))
	f.Fuzz(func(t *testing.T, kinds []byte, bits uint64) {
		d := &dialogue{t: t}
		for i, k := range kinds[:min(len(kinds), 200)] {
			m := spoken{fromA: k&0x80 == 0, psn: wire.PSN(i)}
			m.mad.InitREQ(bits >> 60)
			binary.BigEndian.PutUint16(m.mad[16:], uint16(0x10+(k&0x7f)%11))
			for at := range 200 {
				m.mad[wire.MADHeaderLen+at] = byte(bits>>(at%57)) & k
			}
			d.captured = append(d.captured, m)
		}
		all := newTalks()
		for i := range d.captured {
			m := &d.captured[i]
			src, dst := addrA, addrB
			if !m.fromA {
				src, dst = dst, src
			}
			h := wire.Headers{Opcode: wire.UDSendOnly, DestQP: wire.GSIQPN, PSN: m.psn}
			pkt, err := wire.Parse(append(h.Append(nil), m.mad[:]...))
			if err != nil {
				t.Fatal(err)
			}
			all.add(i+1, src, dst, pkt)
		}
		var r Report
		for _, k := range all.all {
			r.playTalk(k, true)
			r.playTalk(k, false)
		}
	})
}
