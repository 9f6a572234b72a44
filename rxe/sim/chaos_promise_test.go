package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// promises are what lets a program rely on the data of an earlier WRITE. Each returns when the
// promise is given.
var promises = map[string]func(s *stage, psn wire.PSN){
	"SEND": func(s *stage, psn wire.PSN) {
		s.postRecv(1, 0x2000, 16)
		s.mumble(wire.Headers{Opcode: wire.RCSendOnly, PSN: psn}, make([]byte, 4))
		s.untilReceived()
	},
	"WRITE with immediate data": func(s *stage, psn wire.PSN) {
		s.postRecv(1, 0x2000, 16)
		s.mumble(wire.Headers{Opcode: wire.RCWriteOnlyImm, PSN: psn}, nil)
		s.untilReceived()
	},
	"READ": func(s *stage, psn wire.PSN) {
		s.mumble(wire.Headers{Opcode: wire.RCReadRequest, PSN: psn, AckReq: true, VA: va(0x100), RKey: s.rkey(), DMALen: 200}, nil)
		s.untilHeard(wire.RCReadResponseOnly)
	},
	"atomic": func(s *stage, psn wire.PSN) {
		s.mumble(wire.Headers{Opcode: wire.RCFetchAdd, PSN: psn, AckReq: true, VA: va(0x3000), RKey: s.rkey(), SwapAdd: 1}, nil)
		s.untilHeard(wire.RCAtomicAck)
	},
	"ATOMIC WRITE": func(s *stage, psn wire.PSN) {
		s.mumble(wire.Headers{Opcode: wire.RCAtomicWrite, PSN: psn, AckReq: true, VA: va(0x3000), RKey: s.rkey(), DMALen: 8}, make([]byte, 8))
		s.untilHeard(wire.RCReadResponseOnly)
	},
	"FLUSH": func(s *stage, psn wire.PSN) {
		s.mumble(wire.Headers{Opcode: wire.RCFlush, PSN: psn, AckReq: true, VA: va(0x100), RKey: s.rkey(), DMALen: 200,
			FlushPlacement: wire.FlushGlobal}, nil)
		s.untilHeard(wire.RCReadResponseOnly)
	},
	"a request at fault": func(s *stage, psn wire.PSN) {
		s.mumble(wire.Headers{Opcode: wire.RCWriteLast, PSN: psn, AckReq: true}, make([]byte, 4))
		for s.q.State() != rxe.QPErr {
			s.wait(time.Microsecond)
		}
	},
	"ERR":     func(s *stage, _ wire.PSN) { s.ok(s.q.Modify(&rxe.QPAttr{State: rxe.QPErr}, rxe.QPAttrState)) },
	"RESET":   func(s *stage, _ wire.PSN) { s.ok(s.q.Modify(&rxe.QPAttr{State: rxe.QPReset}, rxe.QPAttrState)) },
	"destroy": func(s *stage, _ wire.PSN) { s.ok(s.q.Destroy()) },
	"dereg":   func(s *stage, _ wire.PSN) { s.ok(s.mr.Dereg()) },
	"rereg": func(s *stage, _ wire.PSN) {
		s.ok(s.mr.Rereg(rxe.ReregAccess, nil, nil, 0, 0, 0, rxe.AccessLocalWrite))
	},
}

// untilReceived waits for the completion of a receive.
func (s *stage) untilReceived() {
	wcs := make([]rxe.WC, 1)
	for range 100_000 {
		if n, err := s.cq.Poll(wcs); n == 1 && wcs[0].Status == rxe.WCSuccess {
			return
		} else if n != 0 || err != nil {
			s.t.Fatal(wcs, err)
		}
		s.wait(time.Microsecond)
	}
	s.t.Fatal("no completion")
}

// untilHeard waits for a packet of the device.
func (s *stage) untilHeard(op wire.Opcode) {
	for range 100_000 {
		for _, h := range s.hear() {
			if h.Opcode == op {
				return
			}
		}
		s.wait(time.Microsecond)
	}
	s.t.Fatalf("the device did not send %v", op)
}

// TestChaosPromises writes, and has something promise what was written. Memory has it then.
func TestChaosPromises(t *testing.T) {
	for name, promise := range promises {
		t.Run(name, func(t *testing.T) {
			missing := 0
			for seed := range uint64(chaosSeeds) {
				s := newChaosStage(t, seed)
				want := s.inverted(0x100, 200)
				s.write(stageRQ, 0x100, want)
				s.wait(5 * time.Microsecond)
				if !bytes.Equal(s.mem.Data[0x100:][:200], want) {
					missing++
				}
				promise(s, stageRQ.Add(1))
				if !bytes.Equal(s.mem.Data[0x100:][:200], want) {
					t.Fatalf("seed %d: the data is not there", seed)
				}
			}
			if missing < chaosSeeds/10 {
				t.Errorf("only %d of %d seeds placed the data late", missing, chaosSeeds)
			}
		})
	}
}

// TestChaosWindows writes through a memory window that then ends, by a SEND with invalidate, LOCAL
// INV, another bind or its deallocation. After that nothing is written through it.
func TestChaosWindows(t *testing.T) {
	bind := func(s *stage, mw *rxe.MW, key wire.RKey) {
		s.t.Helper()
		_, err := s.q.PostSend([]rxe.SendWR{{ID: 9, Op: rxe.WRBindMW, Bind: &rxe.MWBind{MW: mw, RKey: key, MR: s.mr,
			Addr: va(0), Length: 0x1000, Access: rxe.AccessRemoteWrite}}})
		s.ok(err)
		s.untilReceived()
	}
	ends := []struct {
		name string
		typ  rxe.MWType
		end  func(s *stage, mw *rxe.MW)
	}{
		{"SEND with invalidate", rxe.MWType2, func(s *stage, mw *rxe.MW) {
			s.postRecv(1, 0x2000, 16)
			s.mumble(wire.Headers{Opcode: wire.RCSendOnlyInv, PSN: stageRQ.Add(1), InvRKey: mw.RKey()}, make([]byte, 4))
			s.untilReceived()
		}},
		{"LOCAL INV", rxe.MWType2, func(s *stage, mw *rxe.MW) {
			_, err := s.q.PostSend([]rxe.SendWR{{ID: 9, Op: rxe.WRLocalInv, InvRKey: mw.RKey()}})
			s.ok(err)
			s.untilReceived()
		}},
		{"bind", rxe.MWType1, func(s *stage, mw *rxe.MW) {
			other := s.q
			s.q = s.connect(farQPN+1, nil) // another QP of the domain may bind it
			bind(s, mw, 0)
			s.q = other
		}},
		{"dealloc of type 1", rxe.MWType1, func(s *stage, mw *rxe.MW) { s.ok(mw.Dealloc()) }},
		{"dealloc of type 2", rxe.MWType2, func(s *stage, mw *rxe.MW) { s.ok(mw.Dealloc()) }},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			for seed := range uint64(chaosSeeds) {
				s := newChaosStage(t, seed)
				mw, err := s.pd.AllocMW(e.typ)
				s.ok(err)
				bind(s, mw, mw.RKey()+1)
				want := s.inverted(0x100, 200)
				s.mumble(wire.Headers{Opcode: wire.RCWriteOnly, PSN: stageRQ, AckReq: true, VA: va(0x100), RKey: mw.RKey(),
					DMALen: 200}, want)
				s.wait(5 * time.Microsecond)
				e.end(s, mw)
				if !bytes.Equal(s.mem.Data[0x100:][:200], want) {
					t.Fatalf("seed %d: the data is not there", seed)
				}
			}
		})
	}
}
