package verbsapi

import (
	"errors"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/fault"
)

// limited opens two contexts of one device, of which the first has lower limits.
func limited(t *testing.T, rule string) (small, plain *Context) {
	t.Helper()
	addr := testAddr()
	plain = openTest(t, Config{Address: addr})
	return openTest(t, Config{Address: addr, Faults: faults(t, rule)}), plain
}

// counts returns what the only rule of a context did.
func (c *Context) counts() (candidates, fired uint64) {
	s := c.Faults()[0]
	return s.Candidates, s.Fired
}

// TestLimits: a context has the limits that its rules set. Another one of the same device has not.
func TestLimits(t *testing.T) {
	small, plain := limited(t, "limits set,max_qp=2,max_cqe=100,max_msg_sz=4KiB")
	own := must(plain.QueryDevice())(t)
	if a := must(small.QueryDevice())(t); a.MaxQP != 2 || a.MaxCQE != 100 || a.MaxMR != own.MaxMR {
		t.Errorf("%+v", a)
	}
	if a := must(plain.QueryDevice())(t); a.MaxQP != 1<<20 || a.MaxCQE != 1<<15-1 {
		t.Errorf("the other one sees %+v", a)
	}
	if p, q := must(small.QueryPort(1))(t), must(plain.QueryPort(1))(t); p.MaxMsgSize != 4096 || q.MaxMsgSize != 1<<31 {
		t.Errorf("messages of %d and %d bytes", p.MaxMsgSize, q.MaxMsgSize)
	}
	for range 3 {
		newEnd(t, plain, endConfig{typ: QPRC, bufSize: 1, depth: 25})
	}
	var e *end
	for range 2 {
		e = newEnd(t, small, endConfig{typ: QPRC, bufSize: 1, depth: 25})
	}
	_, err := e.pd.CreateQP(QPInitAttr{Type: QPRC, SendCQ: e.cq, RecvCQ: e.cq})
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "a fault rule limits max_qp to 2") {
		t.Errorf("a third queue pair: %v", err)
	}
	if _, err := small.CreateCQ(101, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a queue of 101: %v", err)
	}
	s := small.Faults()[0]
	if s.Candidates != 6 || s.Fired != 2 || s.First.Limit != "max_qp" || s.Last.Limit != "max_cqe" {
		t.Errorf("%+v", s)
	}
}

// TestLimitsFixed: limits come and go with their context.
func TestLimitsFixed(t *testing.T) {
	c, plain := limited(t, "limits set,max_qp=2")
	if _, err := plain.AddFaults(faults(t, "packet mark", "limits set,max_qp=3")...); !errors.Is(err, fault.ErrFixed) {
		t.Errorf("a limit for an open context: %v", err)
	}
	if len(plain.Faults()) != 0 {
		t.Error("a refused rule was added")
	}
	if _, err := c.RemoveFaults(1); !errors.Is(err, fault.ErrFixed) {
		t.Errorf("a limit that goes: %v", err)
	}
	id := must(c.AddFaults(faults(t, "packet mark")...))(t)
	must(c.RemoveFaults(id))(t)
}

// TestLimitsNothing: a limit that is not lower than the device's is refused, also if that is lower
// than usual, and a limit that there is not.
func TestLimitsNothing(t *testing.T) {
	limits := must(openTest(t, Config{}).QueryDevice())(t)
	limits.MaxQP = 5
	_, err := Open(Config{Address: testAddr(), Limits: &limits, Faults: faults(t, "limits set,max_qp=5")})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "max_qp 5: limits nothing: the device's own limit is 5") {
		t.Errorf("%v", err)
	}
	var e *FaultError
	rule := Fault{Where: fault.WhereLimits, What: fault.Smaller, Effect: fault.Effect{Limits: map[string]uint64{"max_cows": 1}}}
	if _, err := Open(Config{Address: testAddr(), Faults: []Fault{rule}}); !errors.As(err, &e) || !strings.Contains(e.Why, "max_cows") {
		t.Errorf("%v", err)
	}
}

// TestLimitMessages: neither side of a connection takes a message that is longer than max_msg_sz.
func TestLimitMessages(t *testing.T) {
	const most = 20000
	for _, op := range []WROpcode{WRSend, WRWrite, WRRead} {
		for _, at := range []string{"sender", "receiver"} {
			t.Run(at+"/"+op.String(), func(t *testing.T) {
				t.Parallel()
				ctx := testContext(t)
				small, plain := limited(t, "limits set,max_msg_sz=20000")
				x, y := small, plain
				if at == "receiver" {
					x, y = plain, small
				}
				a, b := pair(t, x, y, endConfig{}, ConnectAttr{Timeout: patient, PathMTU: 1024})
				wr := func(n int) SendWR {
					b.recv(1, 0, 1<<16)
					return SendWR{ID: 1, Op: op, SGL: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
				}
				a.post(wr(most))
				a.expect(ctx, 1, WCSuccess)
				if at == "sender" {
					n, err := a.qp.PostSend([]SendWR{wr(most + 1)})
					if n != 0 || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "sg_list 20001: a fault rule limits max_msg_sz to 20000") {
						t.Errorf("%d posted: %v", n, err)
					}
					if candidates, fired := small.counts(); candidates != 2 || fired != 1 {
						t.Errorf("%d of %d", fired, candidates)
					}
					return
				}
				a.post(wr(most + 1))
				a.expect(ctx, 1, WCRemInvReqErr)
				if _, fired := small.counts(); fired != 1 {
					t.Errorf("fired %d times", fired)
				}
			})
		}
	}
}
