package mlx5

import (
	"encoding/binary"
	"testing"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/rxedev"
	"github.com/gorxe/gorxe/rxe"
)

// newXRCSRQ makes an SRQ of XRC. Its receives complete in cq, with this user index.
func (p *program) newXRCSRQ(x *rxe.XRCD, cq *queue, user uint32) *shared {
	p.t.Helper()
	return p.newSRQWith(rxe.SRQInit{XRCD: x, CQ: cq.cq}, provider.SRQRequest{Type: uapi.SRQTypeXRC, CQ: cq.mem}, user)
}

// newTarget makes an XRC target, which has no queues.
func (p *program) newTarget(x *rxe.XRCD) *pair {
	p.t.Helper()
	u := ask(p, CreateQPReq{})
	q := &pair{program: p, mem: must.Get[provider.QP](p.t)(p.ctx.NewQP(u, provider.QPRequest{Type: uapi.QPTypeXRCTgt, Keys: noKeys{}}))}
	init := rxe.QPInitAttr{Type: rxe.QPXRCTgt}
	q.mem.Init(&init)
	q.qp = must.Get[*rxe.QP](p.t)(p.dev.Whole().CreateTarget(x, init))
	must.OK(p.t, q.mem.Created(u, q.qp))
	p.t.Cleanup(q.mem.Free)
	return q
}

// noKeys are those of a target.
type noKeys struct{}

func (noKeys) PD() *rxe.PD             { return nil }
func (noKeys) MWByRKey(uint32) *rxe.MW { return nil }
func (noKeys) MRByLKey(uint32) *rxe.MR { return nil }

// xrcPair returns an initiator and a target that are connected, and the target's domain.
func xrcPair(t testing.TB) (ini, tgt *pair, x *rxe.XRCD) {
	t.Helper()
	p := newProgram(t, rxedev.New(t))
	x = must.Get[*rxe.XRCD](t)(p.dev.Whole().OpenXRCD(rxe.XRCDInit{Create: true}))
	tgt = p.newTarget(x)
	ini = p.newQPOn(rxe.QPXRCIni, 0x101, p.newCQ(64, 64, false), nil, nil)
	ini.connect(tgt)
	tgt.connect(ini)
	return ini, tgt, x
}

// xrc is the segment that names an SRQ.
func xrc(num uint32) []byte { return seg(num, uint32(0), uint64(0)) }

// TestXRC: each request reaches the SRQ that it names, whose completion queue gets the completion,
// with the user index of the SRQ and the number of the target.
func TestXRC(t *testing.T) {
	ini, tgt, x := xrcPair(t)
	var srq [2]*shared
	var cq [2]*queue
	for i := range srq {
		cq[i] = ini.newCQ(64, 64, false)
		srq[i] = ini.newXRCSRQ(x, cq[i], uint32(0x55+i))
	}
	for round := range 3 * sqBlocks {
		i := round % 2
		index := srq[i].post(ini.piece(4096, 64))
		at := ini.post(opSend, signaled, 0, xrc(srq[i].srq.Num()), inlined([]byte("to one SRQ")))
		if c := ini.send.one(); c.op != cqeReq || c.user != 0x101 || c.counter != at {
			t.Fatalf("round %d: the initiator has %+v", round, c)
		}
		c := cq[i].one()
		if c.op != cqeRespSend || c.user != uint32(0x55+i) || c.counter != index || c.bytes != 10 || c.qpn != uint32(tgt.qp.Num()) {
			t.Fatalf("round %d: %+v, want request %d", round, c, index)
		}
		cq[1-i].none()
		srq[i].free(index)
	}
	// The segments of an operation follow that of XRC.
	num := xrc(srq[0].srq.Num())
	copy(ini.bytes(dataAt, 8), "of bytes")
	ini.post(opWrite, signaled, 0, num, ini.remote(8192), ini.piece(0, 8))
	ini.post(opRead, signaled, 0, num, ini.remote(8192), ini.piece(8200, 8))
	ini.post(opFetchAdd, signaled, 0, num, ini.remote(8192), seg(uint64(1), uint64(0)), ini.piece(8208, 8))
	ini.post(opNop, signaled, 0)
	for range 4 {
		if c := ini.send.one(); c.op != cqeReq {
			t.Errorf("%+v", c)
		}
	}
	want := binary.LittleEndian.Uint64([]byte("of bytes")) + 1
	if got := ini.bytes(dataAt+8192, 24); binary.LittleEndian.Uint64(got) != want || string(got[8:]) != "of bytesof bytes" {
		t.Errorf("in memory: %q", got)
	}
}

// TestHostileXRC: a number that is of another domain, of no SRQ or too long fails the request. So
// does a request without a number. The SRQ of the other domain keeps its receive.
func TestHostileXRC(t *testing.T) {
	const remoteAccess, badRequest = 0x13, 0x02
	for name, tt := range map[string]struct {
		segs     func(other uint32) [][]byte
		syndrome uint8
		failed   bool // the target, too
	}{
		"another domain": {func(n uint32) [][]byte { return [][]byte{xrc(n)} }, remoteAccess, true},
		"no SRQ":         {func(n uint32) [][]byte { return [][]byte{xrc(n ^ 1)} }, remoteAccess, true},
		"too long":       {func(n uint32) [][]byte { return [][]byte{xrc(n | 1<<31)} }, badRequest, false},
		"no number":      {func(uint32) [][]byte { return nil }, badRequest, false},
		"half a segment": {func(n uint32) [][]byte { return [][]byte{seg(n)} }, badRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			ini, tgt, _ := xrcPair(t)
			foreign := must.Get[*rxe.XRCD](t)(ini.dev.Whole().OpenXRCD(rxe.XRCDInit{Create: true}))
			cq := ini.newCQ(64, 64, false)
			srq := ini.newXRCSRQ(foreign, cq, 9)
			srq.post(ini.piece(4096, 64))
			segs := tt.segs(srq.srq.Num())
			index := ini.put(opSend, signaled, 0, segs...)
			if len(segs) == 1 && len(segs[0]) < xrcSize {
				// as if the segment were not there
				ini.bytes(ini.sq+uint64(index)*blockSize+7, 1)[0] = 1
			}
			ini.doorbell()
			if c := ini.send.one(); c.op != cqeReqErr || c.syndrome != tt.syndrome {
				t.Errorf("%+v, want syndrome %#x", c, tt.syndrome)
			}
			if s := state(t, ini); s != rxe.QPErr {
				t.Errorf("the initiator is in %v", s)
			}
			if s := state(t, tgt); (s == rxe.QPErr) != tt.failed {
				t.Errorf("the target is in %v", s)
			}
			cq.none()
		})
	}
}
