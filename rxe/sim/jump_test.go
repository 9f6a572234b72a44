package sim

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/simnet"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// jumper is a clock that jumps forward, as that of a virtual machine that was suspended, or of
// a daemon that was stopped.
type jumper struct {
	*simnet.Port
	ahead, deadline rxe.Time
}

func (j *jumper) Now() rxe.Time { return j.Port.Now() + j.ahead }

func (j *jumper) Arm(deadline rxe.Time) {
	j.deadline = deadline
	j.Port.Arm(max(0, deadline-j.ahead))
}

func (j *jumper) jump(d time.Duration) {
	j.ahead += rxe.Time(d)
	if j.deadline != 0 {
		j.Arm(j.deadline)
	}
}

// newJumpers connects two devices whose clocks jump. A queue pair waits 4 ms for an answer, and
// sends 1 + 2 times.
func newJumpers(t *testing.T) (ends [2]*party, clocks [2]*jumper) {
	s := newStage(t, nil)
	var gids [2]wire.GID
	for i := range ends {
		addr := friendAddr
		if i > 0 {
			addr = addr.Next()
		}
		gids[i] = wire.GIDFromAddr(addr)
		clocks[i] = &jumper{Port: s.net.NewPort(addr)}
		d, err := rxe.New(rxe.Config{Name: "j", GUID: uint64(i + 2), Link: clocks[i], Clock: clocks[i], Seed: [32]byte{byte(i)}})
		s.ok(err)
		clocks[i].Attach(d)
		s.ok(d.SetGIDs(gids[i : i+1]))
		s.ok(d.SetPort(rxe.PortActive, 4096))
		ends[i] = newParty(s, d)
	}
	for i, p := range ends {
		connectRC(t, p.q, rxe.QPAttr{PortNum: 1, Access: everyAccess &^ (rxe.AccessLocalWrite | rxe.AccessMWBind),
			PathMTU: stageMTU, MaxRdAtomic: 2, MaxDestRdAtomic: 2, MinRNRTimer: 20, Timeout: 10,
			RetryCnt: 2, RNRRetry: 7, SQPSN: stageSQ, RQPSN: stageSQ, DestQPN: ends[1-i].q.Num(),
			AH: rxe.AHAttr{DGID: gids[1-i], PortNum: 1}})
	}
	return ends, clocks
}

// jumps are the ends whose clock jumps.
var jumps = map[string][]int{"requester": {0}, "responder": {1}, "both": {0, 1}}

const (
	suspended = 10 * time.Minute
	inFlight  = 3 * time.Microsecond
	settled   = time.Second
)

// A jump of the clock is at most one timeout. Work that is under way succeeds.
func TestClockJump(t *testing.T) {
	for name, which := range jumps {
		t.Run(name, func(t *testing.T) {
			ends, clocks := newJumpers(t)
			a, b := ends[0], ends[1]
			b.recv(1, 1000)
			remote := func(op rxe.WROpcode, id uint64) rxe.SendWR {
				return rxe.SendWR{ID: id, Op: op, SGL: a.sge(0, 4096), RemoteAddr: va(0x2000), RKey: b.mr.RKey()}
			}
			a.post(t, remote(rxe.WRWrite, 1), remote(rxe.WRRead, 2), rxe.SendWR{ID: 3, Op: rxe.WRSend, SGL: a.sge(0, 1000)})
			for range 2 {
				a.s.wait(inFlight)
				for _, i := range which {
					clocks[i].jump(suspended)
				}
			}
			a.s.wait(settled)
			a.statuses(t, rxe.WCSuccess, rxe.WCSuccess, rxe.WCSuccess)
			b.statuses(t, rxe.WCSuccess)
			// The connection goes on, also after a jump while it was idle.
			for _, i := range which {
				clocks[i].jump(suspended)
			}
			b.recv(1, 1000)
			a.post(t, rxe.SendWR{ID: 1, Op: rxe.WRSend, SGL: a.sge(0, 1000)})
			a.s.wait(settled)
			a.statuses(t, rxe.WCSuccess)
			b.statuses(t, rxe.WCSuccess)
		})
	}
}

// A requester that waits because of an RNR NAK asks again after a jump, and goes on waiting.
func TestClockJumpRNR(t *testing.T) {
	for name, which := range jumps {
		t.Run(name, func(t *testing.T) {
			ends, clocks := newJumpers(t)
			a, b := ends[0], ends[1]
			a.post(t, rxe.SendWR{ID: 1, Op: rxe.WRSend, SGL: a.sge(0, 1000)})
			for range 3 {
				a.s.wait(settled)
				for _, i := range which {
					clocks[i].jump(suspended)
				}
				a.statuses(t)
			}
			b.recv(1, 1000)
			a.s.wait(settled)
			a.statuses(t, rxe.WCSuccess)
			b.statuses(t, rxe.WCSuccess)
		})
	}
}

// A peer that is gone is noticed after all retries, not at the jump.
func TestClockJumpPeerGone(t *testing.T) {
	ends, clocks := newJumpers(t)
	a := ends[0]
	a.s.net.SetFaults(simnet.Config{Loss: 1})
	sge := a.sge(0, 1000)
	a.post(t, rxe.SendWR{ID: 1, Op: rxe.WRSend, SGL: sge}, rxe.SendWR{ID: 2, Op: rxe.WRSend, SGL: sge})
	a.s.wait(inFlight)
	clocks[0].jump(suspended)
	a.s.wait(inFlight)
	a.statuses(t)
	a.s.wait(settled)
	a.statuses(t, rxe.WCRetryExcErr, rxe.WCFlushErr)
}
