package verbsapi

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// workStatuses are the errors of enum ibv_wc_status, as rules name them.
var workStatuses = map[string]WCStatus{
	"LOC_LEN_ERR": 1, "LOC_QP_OP_ERR": 2, "LOC_EEC_OP_ERR": 3, "LOC_PROT_ERR": 4, "WR_FLUSH_ERR": 5,
	"MW_BIND_ERR": 6, "BAD_RESP_ERR": 7, "LOC_ACCESS_ERR": 8, "REM_INV_REQ_ERR": 9, "REM_ACCESS_ERR": 10,
	"REM_OP_ERR": 11, "RETRY_EXC_ERR": 12, "RNR_RETRY_EXC_ERR": 13, "LOC_RDD_VIOL_ERR": 14,
	"REM_INV_RD_REQ_ERR": 15, "REM_ABORT_ERR": 16, "INV_EECN_ERR": 17, "INV_EEC_STATE_ERR": 18,
	"FATAL_ERR": 19, "RESP_TIMEOUT_ERR": 20, "GENERAL_ERR": 21,
}

// TestWorkFaults: a work request fails with each status. It is not executed, the work requests
// after it are flushed, and the queue pair is in ERR.
func TestWorkFaults(t *testing.T) {
	for name, status := range workStatuses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := openTest(t, Config{Faults: faults(t, "completion fail,status=IBV_WC_"+name+",vendor_err=0x77,opcode=RDMA_WRITE,after=1,first=1")})
			a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
			ctx := testContext(t)
			write := func(id uint64, at int) SendWR {
				return SendWR{ID: id, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr() + uint64(at), RKey: b.mr.RKey()}
			}
			fill(a.buf, 3)
			a.post(write(1, 0), write(2, 100), write(3, 200))
			a.expect(ctx, 1, WCSuccess)
			wc := a.expect(ctx, 2, status)
			if wc.VendorErr != 0x77 {
				t.Errorf("vendor_err is %#x", wc.VendorErr)
			}
			if wc := a.expect(ctx, 3, WCFlushErr); wc.VendorErr != 0 {
				t.Errorf("vendor_err of a flushed work request is %#x", wc.VendorErr)
			}
			if state := a.qp.State(); state != QPErr {
				t.Errorf("the queue pair is in %v", state)
			}
			if !bytes.Equal(a.buf[:100], b.buf[:100]) || !bytes.Equal(b.buf[100:300], make([]byte, 200)) {
				t.Error("other work requests than the first are executed, or it is not")
			}
			a.post(write(4, 0)) // it is flushed at once, so no rule can hit it
			a.expect(ctx, 4, WCFlushErr)
			if s := x.Faults()[0]; s.Candidates != 3 || s.Fired != 1 || s.First.QP != a.qp.Num() || s.First.Work != "RDMA_WRITE" {
				t.Errorf("%+v, first %+v", s, s.First)
			}
		})
	}
}

// TestWorkFaultRecv: a receive fails, and the peer is told.
func TestWorkFaultRecv(t *testing.T) {
	for _, p := range peers {
		for op, recv := range map[WROpcode]string{WRSend: "RECV", WRWriteImm: "RECV_RDMA_WITH_IMM"} {
			t.Run(fmt.Sprintf("%s/%v", p.name, op), func(t *testing.T) {
				x, y := p.open(t)
				a, b := pair(t, x, y, endConfig{}, ConnectAttr{})
				must(y.AddFaults(faults(t, "completion fail,status=IBV_WC_LOC_PROT_ERR,vendor_err=9,opcode="+recv+",first=1")...))(t)
				ctx := testContext(t)
				b.recv(7, 0, 1000)
				b.recv(8, 0, 1000)
				a.post(SendWR{ID: 1, Op: op, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.expect(ctx, 1, WCRemOpErr)
				if wc := b.expect(ctx, 7, WCLocProtErr); wc.VendorErr != 9 {
					t.Errorf("vendor_err is %d", wc.VendorErr)
				}
				b.expect(ctx, 8, WCFlushErr)
				if state := b.qp.State(); state != QPErr {
					t.Errorf("the queue pair is in %v", state)
				}
			})
		}
	}
}

// TestWorkFaultUD: a datagram that fails takes its queue pair to SQE, where it still receives.
func TestWorkFaultUD(t *testing.T) {
	x := openTest(t, Config{Faults: faults(t, "completion fail,status=IBV_WC_LOC_QP_OP_ERR,qp=UD,first=1")})
	u := newUD(t, x)
	ah := must(u.pd.CreateAH(AHAttr{DGID: must(x.QueryGID(1, 0))(t), PortNum: 1}))(t)
	u.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{u.mr.SGE(0, 10)}, AH: ah, RemoteQPN: u.qp.Num(), RemoteQKey: testQKey})
	u.expect(testContext(t), 2, WCLocQPOpErr)
	if state := u.qp.State(); state != QPSQE {
		t.Errorf("the queue pair is in %v", state)
	}
}

// TestWorkFaultOrder: the completions of two queue pairs come in the order that a rule makes.
func TestWorkFaultOrder(t *testing.T) {
	x := openTest(t, Config{})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
	c, d := pair(t, x, x, endConfig{}, ConnectAttr{})
	const wait = 30 * time.Millisecond
	must(x.AddFaults(faults(t, fmt.Sprintf("completion delay,time=%v,qp=%d", wait, a.qp.Num()))...))(t)
	ctx := testContext(t)
	began := time.Now()
	for i := range uint64(3) {
		a.post(SendWR{ID: i, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	c.post(SendWR{ID: 9, Op: WRWrite, SGL: []SGE{c.mr.SGE(0, 100)}, RemoteAddr: d.mr.Addr(), RKey: d.mr.RKey()})
	c.expect(ctx, 9, WCSuccess)
	for i := range uint64(3) {
		a.expect(ctx, i, WCSuccess)
		if i == 0 && time.Since(began) < wait {
			t.Errorf("the first completion came after %v", time.Since(began))
		}
	}
}

// TestWorkFaultLateThenErr: a work request that is done, and whose completion is late, does not
// fail with its queue pair.
func TestWorkFaultLateThenErr(t *testing.T) {
	x := openTest(t, Config{Faults: faults(t, "completion delay,time=1h,first=1")})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
	ctx := testContext(t)
	fill(a.buf, 4)
	for i := range uint64(2) {
		a.post(SendWR{ID: i, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	b.recv(5, 200, 100)
	a.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}})
	b.expect(ctx, 5, WCSuccess)
	// A message of the other direction follows the acknowledgements.
	a.recv(6, 200, 100)
	b.post(SendWR{ID: 7, Op: WRSend, SGL: []SGE{b.mr.SGE(0, 100)}})
	a.expect(ctx, 6, WCSuccess)
	if err := a.qp.Modify(&QPAttr{State: QPErr}, QPAttrState); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		wc := a.wait(ctx)
		if wc.ID != i || i == 0 && wc.Status != WCSuccess || wc.Status != WCSuccess && wc.Status != WCFlushErr {
			t.Errorf("completion %d: %+v", i, wc)
		}
	}
}

// TestVerbFaults: a verb fails with an errno, and does nothing; or it waits.
func TestVerbFaults(t *testing.T) {
	x := openTest(t, Config{})
	a, _ := pair(t, x, x, endConfig{}, ConnectAttr{})
	for verb, call := range map[string]func() error{
		"alloc_pd":            func() error { return errOf(x.AllocPD()) },
		"reg_mr":              func() error { return errOf(a.pd.RegMR(make([]byte, 8), 0)) },
		"create_cq":           func() error { return errOf(x.CreateCQ(1, nil)) },
		"create_comp_channel": func() error { return errOf(x.CreateCompChannel()) },
		"create_srq":          func() error { return errOf(a.pd.CreateSRQ(SRQAttr{MaxWR: 1, MaxSGE: 1})) },
		"create_qp":           func() error { return errOf(a.pd.CreateQP(QPInitAttr{Type: QPUD, SendCQ: a.cq, RecvCQ: a.cq})) },
		"create_ah":           func() error { return errOf(a.pd.CreateAH(AHAttr{DGID: must(x.QueryGID(1, 0))(t), PortNum: 1})) },
		"alloc_mw":            func() error { return errOf(a.pd.AllocMW(MWType2)) },
		"query_device":        func() error { return errOf(x.QueryDevice()) },
		"query_port":          func() error { return errOf(x.QueryPort(1)) },
		"query_gid_table":     func() error { return errOf(x.QueryGIDTable(0)) },
		"req_notify_cq":       func() error { return a.cq.ReqNotify(false) },
		"resize_cq":           func() error { return a.cq.Resize(100) },
		"modify_qp":           func() error { return a.qp.Modify(&QPAttr{MinRNRTimer: 3}, QPAttrMinRNRTimer) },
		"query_qp":            func() error { _, _, err := a.qp.Query(); return err },
		"post_send":           func() error { return errOf(a.qp.PostSend(nil)) },
	} {
		t.Run(verb, func(t *testing.T) {
			before := x.eng.dev.Objects()
			id := must(x.AddFaults(faults(t, "verb fail,verb="+verb+",errno=ENOSPC,first=1", "verb delay,verb="+verb+",time=2ms,after=1")...))(t)
			defer func() { must(x.RemoveFaults(id, id+1))(t) }()
			var op *OpError
			if err := call(); !errors.Is(err, unix.ENOSPC) || !errors.As(err, &op) {
				t.Errorf("the first call: %v", err)
			}
			if after := x.eng.dev.Objects(); after != before {
				t.Errorf("objects were %+v, and are %+v", before, after)
			}
			if err := call(); err != nil {
				t.Errorf("the second call: %v", err)
			}
			began := time.Now()
			if err := call(); err != nil || time.Since(began) < 2*time.Millisecond {
				t.Errorf("the third call: %v, after %v", err, time.Since(began))
			}
			for _, s := range x.Faults() {
				if s.Fired != 1 || s.First.Verb != verb {
					t.Errorf("%+v, first %+v", s, s.First)
				}
			}
		})
	}
	if _, err := x.AddFaults(faults(t, "verb fail,verb=rdma_*,errno=ENOMEM")...); err == nil {
		t.Error("a rule that can never fire is taken")
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestPeerRNR: a peer that is not ready sends RNR NAKs, and the message arrives once it is ready.
func TestPeerRNR(t *testing.T) {
	for _, p := range peers {
		for _, op := range []WROpcode{WRSend, WRWriteImm} {
			for _, size := range []int{10, 20000} {
				t.Run(fmt.Sprintf("%s/%v/%d", p.name, op, size), func(t *testing.T) {
					t.Parallel()
					x, y := p.open(t)
					a, b := pair(t, x, y, endConfig{}, ConnectAttr{MinRNRTimer: 1})
					must(y.AddFaults(faults(t, fmt.Sprintf("peer rnr,qp=%d,first=3", b.qp.Num()))...))(t)
					ctx := testContext(t)
					fill(a.buf, 5)
					b.recv(7, 1000, size)
					a.post(SendWR{ID: 1, Op: op, SGL: []SGE{a.mr.SGE(0, size)}, RemoteAddr: b.mr.Addr() + 1000, RKey: b.mr.RKey()})
					a.expect(ctx, 1, WCSuccess)
					b.expect(ctx, 7, WCSuccess)
					if !bytes.Equal(a.buf[:size], b.buf[1000:1000+size]) {
						t.Error("the bytes that arrived are others")
					}
					if n := b.counter("rnr_naks_sent"); n != 3 {
						t.Errorf("%d RNR NAKs", n)
					}
					if s := y.Faults()[0]; s.Fired != 3 || s.Candidates != 4 {
						t.Errorf("%+v", s)
					}
				})
			}
		}
	}
}

// TestWorkFaultEvent: a work request that fails raises an event of its queue pair.
func TestWorkFaultEvent(t *testing.T) {
	for event, want := range map[string]EventType{
		"QP_FATAL": EventQPFatal, "QP_REQ_ERR": EventQPReqErr, "QP_ACCESS_ERR": EventQPAccessErr,
	} {
		for _, op := range []string{"SEND", "RECV"} {
			t.Run(event+"/"+op, func(t *testing.T) {
				x := openTest(t, Config{Faults: faults(t, "completion fail,status=IBV_WC_FATAL_ERR,opcode="+op+",event=IBV_EVENT_"+event)})
				a, b := pair(t, x, x, endConfig{}, ConnectAttr{})
				ctx := testContext(t)
				b.recv(7, 0, 100)
				a.post(SendWR{ID: 1, Op: WRSend, SGL: []SGE{a.mr.SGE(0, 100)}})
				at := a
				if op == "RECV" {
					at = b
					b.expect(ctx, 7, WCFatalErr)
				} else {
					a.expect(ctx, 1, WCFatalErr)
				}
				for {
					ev := must(x.GetAsyncEvent(ctx))(t)
					ev.Ack()
					if ev.Type == EventCommEst {
						continue
					}
					if ev.Type != want || ev.QP != at.qp {
						t.Errorf("event %+v, want %v of queue pair %d", ev, want, at.qp.Num())
					}
					break
				}
			})
		}
	}
}

// TestUntil: a rule ends with its time. The peer of a silent queue pair retries meanwhile.
func TestUntil(t *testing.T) {
	x := openTest(t, Config{})
	a, b := pair(t, x, x, endConfig{}, ConnectAttr{Timeout: 14})
	must(x.AddFaults(faults(t, "packet drop,until=100ms")...))(t)
	began := time.Now()
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.expect(testContext(t), 1, WCSuccess)
	if s := x.Faults()[0]; s.Fired > 0 && time.Since(began) < 60*time.Millisecond {
		t.Errorf("%+v, but the WRITE took %v", s, time.Since(began))
	}
}
