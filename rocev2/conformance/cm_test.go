package conformance

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// dreq and drep are the end of the connection that opened makes, by its active side.
func (s *scene) dreq() *scenePacket {
	return s.cm(false, func(m *wire.MAD) {
		d := m.InitDREQ(9)
		d.SetCommIDs(cmActive, cmPassive)
		d.SetRemoteQPN(sceneQPB + 2)
	})
}

func (s *scene) drep() *scenePacket {
	return s.cm(true, func(m *wire.MAD) { m.InitDREP(9).SetCommIDs(cmPassive, cmActive) })
}

func (s *scene) rej(fromB bool, local, remote uint32) *scenePacket {
	return s.cm(fromB, func(m *wire.MAD) {
		r := m.InitREJ(cmTID)
		r.SetCommIDs(local, remote)
		r.SetReason(wire.RejectConsumer)
		r.SetInfo(make([]byte, 72))
	})
}

func (s *scene) lookup(id uint32, tid, service uint64) *scenePacket {
	return s.cm(false, func(m *wire.MAD) {
		q := m.InitSIDRREQ(tid)
		q.SetRequestID(id)
		q.SetServiceID(service)
		h := wire.IPCMHeader{Src: sceneA, Dst: sceneB, SrcPort: 1}
		h.Put(q.PrivateData())
	})
}

func (s *scene) found(id uint32, tid, service uint64) *scenePacket {
	return s.cm(true, func(m *wire.MAD) {
		r := m.InitSIDRREP(tid)
		r.SetRequestID(id)
		r.SetServiceID(service)
	})
}

// doubled appends a copy of a packet, so much later. The network made it.
func (s *scene) doubled(p *scenePacket, d time.Duration) *scenePacket {
	s.now += d
	return s.add(p.fromB, p.headers, bytes.Clone(p.payload))
}

// resent appends a message again, so much later. Its sender sent it.
func (s *scene) resent(p *scenePacket, d time.Duration) *scenePacket {
	s.ud = s.ud.Next()
	again := s.doubled(p, d)
	again.headers.PSN = s.ud
	return again
}

// TestCMTalks: what connection managers may say, also over a network that loses messages,
// and what they may not.
func TestCMTalks(t *testing.T) {
	udp := wire.ServiceID(wire.PortSpaceUDP, 7174)
	for name, c := range map[string]struct {
		talk func(s *scene)
		want []string // rules that are broken
	}{
		"a whole connection": {func(s *scene) { s.opened(3); s.dreq(); s.drep() }, nil},
		"answers lost": {func(s *scene) {
			req := s.resent(s.opened(1), 5*time.Second)
			s.opened(2)
			s.packets = slices.Delete(s.packets, len(s.packets)-2, len(s.packets)-1)
			s.resent(s.packets[len(s.packets)-1], 4096*time.Millisecond) // as Linux counts
			s.now += 5 * time.Second
			s.opened(3)
			s.doubled(req, 2*time.Millisecond) // the network was late
			s.resent(s.dreq(), 5*time.Second)
			s.drep()
			s.drep()
		}, nil},
		"doubled, and late": {func(s *scene) {
			req := s.opened(1)
			s.doubled(req, 15*time.Millisecond)
			rep := s.opened(2)
			s.packets = slices.Delete(s.packets, len(s.packets)-2, len(s.packets)-1)
			for range 20 { // more often than it may be sent again
				s.doubled(rep, time.Second)
			}
			s.resent(rep, time.Second)
			s.doubled(rep, time.Second)
		}, nil},
		"no REQ in the capture": {func(s *scene) {
			s.opened(3)
			s.packets = slices.Delete(s.packets, len(s.packets)-3, len(s.packets)-2)
			s.dreq()
			s.drep()
		}, nil},
		"MRA": {func(s *scene) {
			s.opened(1)
			s.cm(true, func(m *wire.MAD) { m.InitMRA(cmTID).SetCommIDs(cmPassive, cmActive) })
			s.now += time.Second
			s.opened(3)
		}, nil},
		"rejected, and again": {func(s *scene) { s.opened(1); s.rej(true, 0, cmActive); s.opened(1); s.rej(true, 0, cmActive) }, nil},
		"given up":            {func(s *scene) { s.opened(1); s.rej(false, cmActive, 0) }, nil},
		"both disconnect": {func(s *scene) {
			s.opened(3)
			s.dreq()
			s.cm(true, func(m *wire.MAD) {
				d := m.InitDREQ(11)
				d.SetCommIDs(cmPassive, cmActive)
				d.SetRemoteQPN(sceneQPA + 2)
			})
			s.cm(false, func(m *wire.MAD) { m.InitDREP(11).SetCommIDs(cmActive, cmPassive) })
			s.drep()
		}, nil},
		"one number on both sides": {func(s *scene) {
			s.opened(3)
			for i, fill := range []func(m *wire.MAD){
				func(m *wire.MAD) { q := m.InitREQ(5); q.SetLocalCommID(cmActive); q.SetQPN(sceneQPB + 4) },
				func(m *wire.MAD) { r := m.InitREP(5); r.SetCommIDs(cmPassive+7, cmActive); r.SetQPN(sceneQPA + 4) },
				func(m *wire.MAD) { m.InitRTU(5).SetCommIDs(cmActive, cmPassive+7) },
			} {
				s.cm(i != 1, fill)
			}
			s.dreq()
			s.drep()
		}, nil},
		"rested": {func(s *scene) {
			s.opened(3)
			s.dreq()
			s.drep()
			s.now += 540 * time.Millisecond
			s.opened(3)
			s.packets[len(s.packets)-3].payload[15]++ // TIDs of another connection
			s.packets[len(s.packets)-2].payload[15]++
			s.packets[len(s.packets)-1].payload[15]++
		}, nil},
		"XRC": {func(s *scene) { s.openedXRC(3); s.dreq(); s.drep() }, nil},
		"a lookup": {func(s *scene) {
			s.resent(s.lookup(3, 4, udp), 4*time.Second)
			s.found(3, 4, udp)
		}, nil},
		"class port info": {func(s *scene) {
			s.cm(false, func(m *wire.MAD) {
				m.Init(&wire.MADHeader{Class: wire.MADClassCM, ClassVersion: 2, Method: wire.MADGet, Attribute: 1})
			})
		}, nil},

		"length":           {func(s *scene) { p := s.opened(1); p.payload = p.payload[:252] }, []string{"mad-format"}},
		"base version":     {func(s *scene) { s.opened(1).payload[0] = 2 }, []string{"mad-format"}},
		"class version":    {func(s *scene) { s.opened(1).payload[2] = 3 }, []string{"mad-format"}},
		"attribute":        {func(s *scene) { s.opened(1).payload[17] = 0x1b }, []string{"mad-format"}},
		"wildcard address": {func(s *scene) { clear(s.lookup(3, 4, udp).payload[wire.MADHeaderLen+16+4 : 256]) }, []string{"cm-ip-header"}},
		"MRA of nothing":   {func(s *scene) { s.cm(true, func(m *wire.MAD) { m.InitMRA(0).SetMessageMRAed(3) }) }, []string{"cm-reason"}},
		"REJ of nothing":   {func(s *scene) { s.rej(true, 0, 1).payload[wire.MADHeaderLen+8] = 3 << 6 }, []string{"cm-reason"}},
		"lookup status":    {func(s *scene) { s.found(3, 4, udp).payload[wire.MADHeaderLen+4] = 6 }, []string{"cm-reason"}},
		"lookup info":      {func(s *scene) { s.found(3, 4, udp).payload[wire.MADHeaderLen+sidrInfoLen] = 73 }, []string{"cm-info-length"}},
		"queue pair":       {func(s *scene) { s.opened(3); s.asDREQ().SetRemoteQPN(5) }, []string{"cm-ids"}},
		"XRC target": {func(s *scene) {
			s.openedXRC(2)
			rep := s.replyXRC(len(s.packets) - 1)
			rep.SetXRCQPN(0)
			rep.SetQPN(sceneQPB + 2)
		}, []string{"cm-xrc"}},
		"XRC queue pair": {func(s *scene) { s.openedXRC(3); s.asDREQ().SetRemoteQPN(5) }, []string{"cm-ids"}},
		"service":        {func(s *scene) { s.lookup(3, 4, udp); s.found(3, 4, udp+1) }, []string{"cm-ids"}},
		"lookup TID":     {func(s *scene) { s.lookup(3, 4, udp); s.found(3, 5, udp) }, []string{"cm-transaction"}},
		"DREP's TID":     {func(s *scene) { s.opened(3); s.dreq(); s.drep().payload[15]++ }, []string{"cm-transaction"}},
		"REP by the active side": {func(s *scene) {
			s.opened(1)
			s.cm(false, func(m *wire.MAD) { m.InitREP(cmTID).SetCommIDs(cmActive, cmPassive) })
		}, []string{"cm-order"}},
		"DREP without DREQ": {func(s *scene) { s.opened(3); s.drep() }, []string{"cm-order"}},
		"at once":           {func(s *scene) { s.resent(s.opened(1), time.Millisecond) }, []string{"cm-retries"}},
		"too soon after a double": {func(s *scene) {
			req := s.opened(1)
			s.resent(req, 5*time.Second)
			s.doubled(req, time.Second)
			s.resent(req, time.Second)
		}, []string{"cm-retries"}},
		"too often": {func(s *scene) {
			s.opened(1)
			for range 16 {
				s.now += 5 * time.Second
				s.opened(1)
			}
		}, []string{"cm-retries"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			c.talk(s)
			r, err := Check(bytes.NewReader(s.file(t)), Options{Ignore: []string{"source-port"}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range r.Findings {
				if x := &r.Findings[i]; !slices.Contains(c.want, x.Rule.Name) {
					t.Error(x)
				}
				got = append(got, r.Findings[i].Rule.Name)
			}
			if len(got) != len(c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}

// asDREQ appends a DREQ, and returns its view.
func (s *scene) asDREQ() wire.CMDREQ {
	m, _ := wire.ParseCM(s.dreq().payload)
	return m.(wire.CMDREQ)
}

// TestTalksBounded: the checker forgets the oldest talks.
func TestTalksBounded(t *testing.T) {
	ts := newTalks()
	for i := range 3*maxTalks + 1 {
		ts.begin(&talk{key: talkKey{id: uint32(i % (2 * maxTalks))}})
	}
	if len(ts.byKey) > maxTalks || len(ts.order) > maxTalks {
		t.Errorf("%d talks are kept", len(ts.byKey))
	}
	if ts.byKey[talkKey{id: maxTalks}] == nil {
		t.Error("the last one is not kept")
	}
}
