package conformance

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

var update = flag.Bool("update", false, "write testdata/pcaps/broken")

// broken makes, for each rule, a capture that breaks it and no other.
var broken = map[string]func(s *scene){
	// One packet: an acknowledgement that is repeated changes nothing else.
	"icrc":   extra(func(p *scenePacket) { p.after = func(b []byte) { b[len(b)-6] ^= 1 } }),
	"length": extra(func(p *scenePacket) { p.cutTo = wire.BTHLen }),
	"pad": func(s *scene) {
		p := s.message(wire.RCSendFirst, 100)
		p[1].payload, p[1].headers.Pad = p[1].payload[:sceneMTU-1], 1
	},
	"transport-version": extra(func(p *scenePacket) { p.before = func(b []byte) { b[1] |= 1 } }),
	"opcode":            extra(func(p *scenePacket) { p.headers.Opcode = 0x1f }),
	"payload":           extra(func(p *scenePacket) { p.payload = make([]byte, 4) }),
	"reserved-bits":     extra(func(p *scenePacket) { p.before = func(b []byte) { b[8] |= 0x10 } }),
	"solicited-event":   extra(func(p *scenePacket) { p.headers.Solicited = true }),
	"p-key":             extra(func(p *scenePacket) { p.headers.PKey = 0x8000 }),
	"ip-header":         extra(func(p *scenePacket) { p.clearDF = true }),
	"ip-checksum":       extra(func(p *scenePacket) { p.after = func(b []byte) { b[10] ^= 1 } }),
	"udp-checksum":      extra(func(p *scenePacket) { p.udpCheck = 0x1234 }),
	"source-port":       extra(func(p *scenePacket) { p.port = 0xc001 }),
	"syndrome":          extra(func(p *scenePacket) { p.headers.Syndrome = 0x44 }),
	"q-key": func(s *scene) {
		var mad wire.MAD
		mad.InitRTU(0)
		s.datagram(1, 0x80020000, mad[:])
	},
	"management-qp": func(s *scene) {
		s.add(false, wire.Headers{Opcode: wire.RCSendOnly, DestQP: 1, PSN: 7}, make([]byte, 256))
	},
	"multicast-qp": func(s *scene) { s.datagram(0x44, 1, make([]byte, 64)).dst = "224.0.0.99" },
	"ud-length":    func(s *scene) { s.datagram(0x44, 1, make([]byte, 4100)) },
	"reth-length": func(s *scene) {
		s.add(false, wire.Headers{Opcode: wire.RCWriteOnly, DestQP: 0x44, PSN: 7, VA: 0x1000, DMALen: 65}, make([]byte, 64))
	},
	"atomic-alignment": func(s *scene) {
		s.add(false, wire.Headers{Opcode: wire.RCFetchAdd, DestQP: 0x44, PSN: 7, VA: 0x1004}, nil)
	},

	// Requests.
	"opcode-sequence": func(s *scene) {
		s.message(wire.RCSendFirst, 100)[1].headers.Opcode = wire.RCWriteMiddle
	},
	"path-mtu": func(s *scene) {
		p := s.message(wire.RCSendFirst, 100)[1]
		p.payload = make([]byte, 512)
	},
	"write-length": func(s *scene) {
		p := s.message(wire.RCWriteFirst, 100)[2]
		p.payload = p.payload[:96]
	},
	"psn-sequence": func(s *scene) {
		s.add(false, wire.Headers{Opcode: wire.RCSendOnly, PSN: s.next.Add(1 << 20)}, make([]byte, 64))
	},
	"psn-gap": func(s *scene) {
		s.send(64)
		i := len(s.packets) - 2
		s.packets = slices.Delete(s.packets, i, i+1)
	},
	"retransmission": func(s *scene) {
		p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		again := s.add(false, p.headers, p.payload)
		again.headers.Opcode, again.headers.Imm = wire.RCSendOnlyImm, 7
		s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.ack()
	},
	"go-back-n": func(s *scene) {
		s.msn-- // the NAK comes before any of them is done
		lost, second := s.request(wire.RCSendOnly, wire.Headers{}, 64), s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.msn--
		s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), lost.headers.PSN)
		s.again(second)
		s.again(lost)
		s.again(second)
		s.msn += 2
		s.ack()
	},
	"rnr-wait": func(s *scene) {
		p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.msn--
		s.answer(wire.SyndromeRNR(0), p.headers.PSN)
		s.now += 200 * time.Millisecond
		s.again(p)
		s.msn++
		s.ack()
	},
	"read-depth": func(s *scene) {
		s.packets = nil
		s.connect(1)
		s.sends(2)
		one := s.request(wire.RCReadRequest, wire.Headers{DMALen: 8}, 0)
		two := s.request(wire.RCReadRequest, wire.Headers{DMALen: 8}, 0)
		s.readResponse(one.headers.PSN, wire.RCReadResponseOnly, 8)
		s.readResponse(two.headers.PSN, wire.RCReadResponseOnly, 8)
	},
	"ack-missing": func(s *scene) {
		s.sends(20)
		s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.now += 3 * time.Second
		s.datagram(0x44, 1, make([]byte, 64))
		s.next = 0 // nothing follows
	},
	"qp-restarted": func(s *scene) {
		s.next, s.msn = s.next.Add(0x100000), 0
		s.sends(2)
	},
	"xrc-srq": func(s *scene) {
		s.xrc(5, 5, 5)
		s.xrc(5, 6, 6)
	},
	"xrc-half": func(s *scene) {
		s.xrc(5, 5, 5)
		s.add(true, wire.Headers{Opcode: wire.XRCSendOnly, DestQP: sceneQPA + 4, XRCSRQN: 5, PSN: 77}, make([]byte, 64))
	},
	"service": func(s *scene) {
		s.packets = nil
		s.add(false, wire.Headers{Opcode: wire.UCSendOnly, PSN: 9}, make([]byte, 64))
	},

	// Responses.
	"ack-unsent":    func(s *scene) { s.answer(wire.SyndromeACK, s.next.Add(1000)) },
	"response-kind": func(s *scene) { s.readResponse(s.next.Sub(1), wire.RCReadResponseOnly, 8) },
	"msn":           func(s *scene) { s.answer(wire.SyndromeACK, s.next.Sub(1)).headers.MSN += 5 },
	"read-response-range": func(s *scene) {
		s.readResponse(s.next.Add(1000), wire.RCReadResponseOnly, 8)
	},
	"read-response-opcode": func(s *scene) { s.read(600)[1].headers.Opcode = wire.RCReadResponseMiddle },
	"read-response-length": func(s *scene) {
		p := s.read(600)[3]
		p.payload = p.payload[:len(p.payload)-4]
	},
	"atomic-replay": func(s *scene) {
		request, _ := s.atomic()
		s.again(request)
		s.atomicAck(request, 42)
	},
	"nak-repeated": func(s *scene) {
		lost := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.msn -= 2
		s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), lost.headers.PSN)
		s.answer(wire.SyndromeNAK(wire.NAKPSNSequence), lost.headers.PSN)
		s.again(lost)
		s.msn += 2
		s.ack()
	},
	"nak-code": func(s *scene) {
		p := s.request(wire.RCSendOnly, wire.Headers{}, 64)
		s.msn--
		s.answer(wire.SyndromeNAK(wire.NAKRemoteAccess), p.headers.PSN)
		s.next = 0
	},

	// The connection manager.
	"mad-format": func(s *scene) { s.cm(false, func(m *wire.MAD) { m.InitRTU(0); m[3] = uint8(wire.MADGetResp) }) },
	"cm-info-length": func(s *scene) {
		s.cm(true, func(m *wire.MAD) {
			m.InitREJ(0).SetReason(wire.RejectConsumer)
			m.Data()[rejInfoLen] = 73 << 1
		})
	},
	"cm-ip-header": func(s *scene) {
		s.cm(false, func(m *wire.MAD) {
			q := m.InitREQ(0)
			q.SetServiceID(wire.ServiceID(wire.PortSpaceTCP, 7174))
			h := wire.IPCMHeader{Src: sceneA, Dst: sceneB, SrcPort: 40000}
			h.Put(q.PrivateData())
			q.PrivateData()[0] = 0x10 // version 1
		})
	},
	"cm-reason": func(s *scene) { s.cm(true, func(m *wire.MAD) { m.InitREJ(0).SetReason(34) }) },
	"cm-ids": func(s *scene) {
		s.opened(3)
		s.cm(false, func(m *wire.MAD) {
			d := m.InitDREQ(9)
			d.SetCommIDs(cmActive, cmPassive+1)
			d.SetRemoteQPN(sceneQPB + 2)
		})
	},
	"cm-transaction": func(s *scene) {
		s.opened(2)
		s.cm(false, func(m *wire.MAD) { m.InitRTU(cmTID+1).SetCommIDs(cmActive, cmPassive) })
	},
	"cm-order": func(s *scene) {
		s.opened(1)
		s.cm(false, func(m *wire.MAD) { m.InitRTU(cmTID).SetCommIDs(cmActive, cmPassive) })
	},
	"cm-resent": func(s *scene) {
		s.opened(1)
		s.now += 5 * time.Second
		s.opened(1).payload[wire.MADLen-1] = 1 // of the private data
	},
	"cm-retries": func(s *scene) {
		s.opened(1)
		s.now += time.Second
		s.opened(1)
	},
	"cm-xrc": func(s *scene) {
		s.openedXRC(3)
		s.replyXRC(len(s.packets) - 2).SetSRQ(false)
	},
	"cm-timewait": func(s *scene) {
		s.opened(3)
		s.cm(false, func(m *wire.MAD) { d := m.InitDREQ(9); d.SetCommIDs(cmActive, cmPassive); d.SetRemoteQPN(sceneQPB + 2) })
		s.cm(true, func(m *wire.MAD) { m.InitDREP(9).SetCommIDs(cmPassive, cmActive) })
		s.now += 500 * time.Millisecond // of 537
		again := wire.CMREQ{MAD: (*wire.MAD)(s.opened(1).payload)}
		again.SetStartingPSN(7)
	},

	// Congestion.
	"cnp-format":     func(s *scene) { s.marked(1); s.cnp().headers.PSN = 1 },
	"cnp-unprompted": func(s *scene) { s.cnp() },
	"cnp-rate":       func(s *scene) { s.marked(1); s.cnp(); s.cnp() },
	"cnp-reaction": func(s *scene) {
		for range obstinate {
			s.stream((pause+3)*slotTime, steady+2)
			s.cnp()
			s.now -= sceneGap
		}
		s.stream((reaction+3)*slotTime, steady+2)
		s.send(0)
	},
}

// extra breaks an acknowledgement that repeats the one before.
func extra(f func(p *scenePacket)) func(s *scene) {
	return func(s *scene) { f(s.ack()) }
}

// again appends a packet that was sent before.
func (s *scene) again(p *scenePacket) { s.add(p.fromB, p.headers, p.payload) }

// xrc appends a message of XRC between two other queue pairs, whose packets name these SRQs, and
// its acknowledgement.
func (s *scene) xrc(srqns ...uint32) {
	h := wire.Headers{DestQP: sceneQPB + 4, PSN: s.xrcPSN}
	for i, op := range []wire.Opcode{wire.XRCSendFirst, wire.XRCSendMiddle, wire.XRCSendLast} {
		h.Opcode, h.XRCSRQN, h.AckReq = op, srqns[i], op.Info().Has(wire.OpEnd)
		s.add(false, h, make([]byte, sceneMTU))
		h.PSN = h.PSN.Next()
	}
	s.xrcPSN = h.PSN
	s.add(true, wire.Headers{Opcode: wire.XRCAck, DestQP: sceneQPA + 4, PSN: h.PSN.Sub(1), Syndrome: wire.SyndromeACK, MSN: wire.MSN(s.xrcPSN / 3)}, nil)
}

// marked appends requests that a switch marked.
func (s *scene) marked(n int) {
	for range n {
		s.request(wire.RCSendOnly, wire.Headers{}, 64).tos = 3
		s.ack()
	}
}

// stream appends requests of some time, so many in a slot; a switch marked the first.
func (s *scene) stream(d time.Duration, packets int) {
	each := slotTime / time.Duration(packets)
	tos := byte(3)
	for end := s.now + d; s.now < end; s.now += each - sceneGap {
		p := s.request(wire.RCSendOnly, wire.Headers{}, 0)
		p.headers.AckReq, p.tos, tos = false, tos, 2
	}
}

func (s *scene) cnp() *scenePacket {
	return s.add(true, wire.Headers{Opcode: wire.OpCNP, BECN: true}, nil)
}

// connect appends a REQ and a REP of the connection managers, with depth READs each way.
func (s *scene) connect(depth byte) {
	var reqMAD, repMAD wire.MAD
	req := reqMAD.InitREQ(0)
	req.SetLocalCommID(7)
	req.SetQPN(sceneQPA)
	req.SetResponderResources(depth)
	req.SetInitiatorDepth(depth)
	s.datagram(wire.GSIQPN, wire.GSIQKey, reqMAD[:])
	rep := repMAD.InitREP(0)
	rep.SetCommIDs(8, 7)
	rep.SetQPN(sceneQPB)
	rep.SetResponderResources(depth)
	rep.SetInitiatorDepth(depth)
	p := s.datagram(wire.GSIQPN, wire.GSIQKey, repMAD[:])
	p.fromB = true
}

// The identifiers of the connection that opened makes.
const (
	cmTID     = 0x5500000077
	cmActive  = 0x77
	cmPassive = 0x99
)

// cm appends a message of the connection manager.
func (s *scene) cm(fromB bool, fill func(m *wire.MAD)) *scenePacket {
	var m wire.MAD
	fill(&m)
	p := s.datagram(wire.GSIQPN, wire.GSIQKey, m[:])
	p.fromB = fromB
	return p
}

// opened appends the first messages, of REQ, REP and RTU, of a connection of two other
// queue pairs, and returns the last.
func (s *scene) opened(messages int) (p *scenePacket) {
	for _, say := range []func() *scenePacket{
		func() *scenePacket {
			return s.cm(false, func(m *wire.MAD) {
				q := m.InitREQ(cmTID)
				q.SetLocalCommID(cmActive)
				q.SetQPN(sceneQPA + 2)
				q.SetRemoteCMTimeout(20)
				q.SetLocalCMTimeout(20)
				q.SetMaxCMRetries(15)
				q.SetPrimaryPath(&wire.CMPath{LocalACKTimeout: 17})
			})
		},
		func() *scenePacket {
			return s.cm(true, func(m *wire.MAD) {
				r := m.InitREP(cmTID)
				r.SetCommIDs(cmPassive, cmActive)
				r.SetQPN(sceneQPB + 2)
			})
		},
		func() *scenePacket {
			return s.cm(false, func(m *wire.MAD) { m.InitRTU(cmTID).SetCommIDs(cmActive, cmPassive) })
		},
	}[:messages] {
		p = say()
	}
	return p
}

// openedXRC is opened for an XRC initiator and its target.
func (s *scene) openedXRC(messages int) {
	s.opened(messages)
	first := len(s.packets) - messages
	req := wire.CMREQ{MAD: (*wire.MAD)(s.packets[first].payload)}
	req.SetTransportType(3)
	req.SetExtendedTransportType(1)
	if messages > 1 {
		rep := s.replyXRC(first + 1)
		rep.SetQPN(0)
		rep.SetXRCQPN(sceneQPB + 2)
		rep.SetSRQ(true)
	}
}

// replyXRC returns the view of a packet with a REP.
func (s *scene) replyXRC(packet int) wire.CMREP {
	m, _ := wire.ParseCM(s.packets[packet].payload)
	return m.(wire.CMREP)
}

// brokenScene is a clean conversation with one fault in the middle.
func brokenScene(breakIt func(s *scene)) *scene {
	s := newScene()
	s.clean()
	breakIt(s)
	if s.next != 0 {
		s.sends(calm + 2)
	}
	return s
}

// TestClean: the conversation in which the broken captures have their faults obeys
// every rule.
func TestClean(t *testing.T) {
	s := brokenScene(func(*scene) {})
	r, err := Check(bytes.NewReader(s.file(t)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Findings {
		t.Error(&r.Findings[i])
	}
	if len(r.Flows) != 2 || r.Flows[0].Peer != r.Flows[1] {
		t.Errorf("%d flows, not paired", len(r.Flows))
	}
	if got := r.Flows[0].Stats; got.PathMTU != sceneMTU || got.Messages == 0 || got.Retransmissions+got.Gaps > 0 {
		t.Errorf("statistics %+v", got)
	}
}

// TestBroken: each rule finds the capture that breaks it, with the severity that it
// declares. No other rule does, except those that it implies.
func TestBroken(t *testing.T) {
	const dir = captures + "broken/"
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			breakIt := broken[rule.Name]
			if breakIt == nil {
				t.Fatal("no capture breaks it")
			}
			file := brokenScene(breakIt).file(t)
			name := filepath.Join(dir, rule.Name+".pcap")
			if *update {
				if err := os.WriteFile(name, file, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if kept, err := os.ReadFile(name); err != nil || !bytes.Equal(kept, file) {
				t.Fatalf("%s is not what -update writes (%v)", name, err)
			}
			r, err := CheckFile(name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			worst := Severity(0)
			for i := range r.Findings {
				x := &r.Findings[i]
				if x.Rule == rule {
					worst = max(worst, x.Severity)
				} else if !slices.Contains(rule.Implies, x.Rule.Name) {
					t.Error(x)
				}
				if x.Expected == "" || x.Seen == "" || x.Packet == 0 || x.Time.IsZero() {
					t.Errorf("incomplete: %v", x)
				}
			}
			if worst != rule.Severity {
				t.Errorf("found with %v, want %v", worst, rule.Severity)
			}
			if r, err = CheckFile(name, Options{Ignore: []string{rule.Name}}); err != nil || r.Of(rule.Name).Total() > 0 {
				t.Errorf("found when ignored (%v)", err)
			}
		})
	}
	for name := range broken {
		if RuleByName(name) == nil {
			t.Errorf("%s is no rule", name)
		}
	}
}

// TestRules: every rule has all its texts, and no two have the same.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Name] || r.Name != strings.ToLower(r.Name) || r.Text == "" || r.Clause == "" || r.Severity == 0 {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
	}
	for _, r := range Rules() {
		for _, name := range r.Implies {
			if !seen[name] || name == r.Name {
				t.Errorf("%s implies %q", r.Name, name)
			}
		}
	}
	if _, err := New(Options{Ignore: []string{"no-such-rule"}}); err == nil {
		t.Error("an unknown rule was ignored in silence")
	}
}
