package verbsapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	testmust "github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
	"github.com/gorxe/gorxe/wire"
)

// patient lets a queue pair wait longer for an acknowledgement than any busy machine takes, and
// hasty not as long.
const (
	patient = 22 // 17 s
	hasty   = 15 // 134 ms
)

func faults(t testing.TB, texts ...string) (rules []Fault) {
	t.Helper()
	for _, text := range texts {
		rules = append(rules, must(ParseFault(text))(t))
	}
	return rules
}

func (e *end) counter(name string) uint64 {
	e.t.Helper()
	for _, c := range e.qp.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	e.t.Fatalf("no counter %s", name)
	return 0
}

// outcome is what a WRITE meets. Counters that are not named here are 0, except that a
// retransmission may be a duplicate.
type outcome struct {
	size    int
	timeout uint8
	status  WCStatus
	counter string // of the sender, or with "b " before it, of the receiver
}

// faultCases are the rows of the table in docs/faults.md. The first WRITE of a queue pair meets
// the rule.
var faultCases = []struct {
	rule string
	want outcome
}{
	{"packet drop,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet drop,opcode=RC_RDMA_WRITE_*", outcome{100, 1, WCRetryExcErr, "timeouts"}},
	{"packet drop,opcode=RC_RDMA_WRITE_MIDDLE,first=1", outcome{20000, patient, WCSuccess, "b seq_naks_sent"}},
	{"packet duplicate,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCSuccess, "b duplicates"}},
	{"packet delay,time=2ms,opcode=RC_RDMA_WRITE_*", outcome{20000, patient, WCSuccess, ""}},
	{"packet delay,time=2ms,jitter=1ms,opcode=RC_RDMA_WRITE_ONLY", outcome{100, patient, WCSuccess, ""}},
	{"packet reorder,by=1,time=1h,opcode=RC_RDMA_WRITE_MIDDLE,first=1", outcome{20000, patient, WCSuccess, "b seq_naks_sent"}},
	{"packet reorder,by=9,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCSuccess, ""}},
	{"packet corrupt,bit=300,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet corrupt,bit=35,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCSuccess, ""}},
	{"packet corrupt,field=icrc,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet corrupt,field=pkey,value=0x1234,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet corrupt,field=psn,value=0x555555,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet corrupt,field=rkey,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCRemAccessErr, ""}},
	{"packet corrupt,field=dma_len,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCRemInvReqErr, ""}},
	{"packet truncate,length=60,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, patient, WCRemInvReqErr, ""}},
	{"packet truncate,length=14,opcode=RC_RDMA_WRITE_ONLY,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
	{"packet mark,opcode=RC_RDMA_WRITE_*", outcome{20000, patient, WCSuccess, ""}},
	{"packet shape,rate=1gbit,latency=200us,queue=1000", outcome{20000, patient, WCSuccess, ""}},
	{"packet drop,opcode=RC_ACKNOWLEDGE,first=1", outcome{100, hasty, WCSuccess, "retransmits"}},
}

// TestFaults: each fault has the outcome that the specification demands, on each way from one
// queue pair to another, and as the rule of either end. Without the rule, the same WRITE is good.
func TestFaults(t *testing.T) {
	for i, p := range peers {
		for _, c := range faultCases {
			for _, by := range []string{"sender", "receiver", "none"} {
				if by == "none" && i > 0 {
					continue // other tests do that
				}
				t.Run(fmt.Sprintf("%s/%s/%s", p.name, by, c.rule), func(t *testing.T) {
					t.Parallel()
					x, y := p.open(t)
					timeout := c.want.timeout
					if by == "none" {
						timeout = patient
					}
					a, b := pair(t, x, y, endConfig{bufSize: 20000}, ConnectAttr{Timeout: timeout, PathMTU: 1024})
					rules := faults(t, c.rule)
					set := map[string]*Context{"sender": x, "receiver": y}[by]
					if set != nil {
						must(set.AddFaults(rules...))(t)
					}
					c.want.meets(t, a, b, set)
				})
			}
		}
	}
}

// meets does one WRITE. Without a context with rules, it must be good.
func (o outcome) meets(t *testing.T, a, b *end, set *Context) {
	ctx := testContext(t)
	fill(a.buf, 3)
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, o.size)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if set == nil {
		a.expect(ctx, 1, WCSuccess)
		return
	}
	a.expect(ctx, 1, o.status)
	// On a busy machine the retries may be used up before the receiver looks at the first packet.
	testmust.Eventually(t, "the rule fires", func() bool { return set.Faults()[0].Fired > 0 })
	for _, s := range set.Faults() {
		if s.Fired == 0 || s.First == nil || s.Last == nil || s.Candidates < s.Fired {
			t.Errorf("the rule did not fire: %+v", s)
		}
	}
	if o.status == WCSuccess && !bytes.Equal(a.buf[:o.size], b.buf[:o.size]) {
		t.Error("the bytes that arrived are others")
	}
	e, name := a, o.counter
	if len(name) > 2 && name[:2] == "b " {
		e, name = b, name[2:]
	}
	if name != "" && e.counter(name) == 0 {
		t.Errorf("%s is 0: %v", o.counter, e.qp.Counters())
	}
	if o.timeout == patient && a.counter("timeouts") > 0 {
		t.Error("a timeout, but nothing was lost for long")
	}
}

// captured returns what a capture has of each opcode, and what the checker found.
func captured(t *testing.T, path string) (sent map[wire.Opcode]map[wire.PSN]int, findings []string) {
	t.Helper()
	f := must(os.Open(path))(t)
	defer f.Close()
	checker := must(conformance.New(conformance.Options{OnFinding: func(x *conformance.Finding) {
		findings = append(findings, x.String())
	}}))(t)
	r := must(capture.NewReader(f))(t)
	sent = make(map[wire.Opcode]map[wire.PSN]int)
	for {
		var p capture.Packet
		err := r.Next(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		checker.Add(&p)
		pkt := must(wire.Parse(p.Transport[:len(p.Transport)-wire.ICRCLen]))(t)
		if sent[pkt.Opcode()] == nil {
			sent[pkt.Opcode()] = make(map[wire.PSN]int)
		}
		sent[pkt.Opcode()][pkt.PSN()]++
	}
	checker.Close()
	return sent, findings
}

// TestFaultOneLost: a rule that drops one packet exactly shows exactly one retransmission in a
// capture, in which the checker finds nothing.
func TestFaultOneLost(t *testing.T) {
	for _, same := range []bool{true, false} {
		t.Run(fmt.Sprintf("one device: %v", same), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "capture.pcapng")
			tap := must(rocev2.OpenTap(path, "lo"))(t)
			x := openTest(t, Config{Tap: tap, Faults: faults(t, "packet drop,opcode=RC_RDMA_WRITE_ONLY,after=2,first=1")})
			y := x
			if !same {
				y = openTest(t, Config{})
			}
			a, b := pair(t, x, y, endConfig{}, ConnectAttr{Timeout: 16})
			ctx := testContext(t)
			for i := range 5 {
				a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(i, 100)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.expect(ctx, 1, WCSuccess)
			}
			first := x.Faults()[0].First
			if err := errors.Join(x.Close(), tap.Close()); err != nil {
				t.Error(err)
			}
			sent, findings := captured(t, path)
			again := 0
			for psn, n := range sent[wire.RCWriteOnly] {
				if n > 1 {
					again += n - 1
					if uint32(psn) != first.PSN {
						t.Errorf("PSN %d was sent again, and the rule hit %d", psn, first.PSN)
					}
				}
			}
			if len(sent[wire.RCWriteOnly]) != 5 || again != 1 || len(findings) > 0 {
				t.Errorf("%d WRITEs, %d sent again, findings %q", len(sent[wire.RCWriteOnly]), again, findings)
			}
		})
	}
}

// TestFaultDocs: docs/faults.md has a row for each case.
func TestFaultDocs(t *testing.T) {
	text := string(must(os.ReadFile("../docs/faults.md"))(t))
	for _, c := range faultCases {
		if !strings.Contains(text, "\n| `"+c.rule+"` | ") {
			t.Errorf("docs/faults.md has no outcome for %s", c.rule)
		}
	}
}

// TestFaultMark: a marked packet tells its receiver.
func TestFaultMark(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			x, y := p.open(t)
			u, v := newUD(t, x), newUD(t, y)
			ah := must(u.pd.CreateAH(AHAttr{DGID: wire.GIDFromAddr(y.Addr()), PortNum: 1}))(t)
			ctx := testContext(t)
			for i, want := range []byte{0, 3} {
				if i == 1 {
					must(y.AddFaults(faults(t, "packet mark,qp=UD,direction=in")...))(t)
				}
				v.recv(1, 0, 2000)
				u.post(SendWR{ID: 2, Op: WRSend, SGL: []SGE{u.mr.SGE(0, 10)}, AH: ah, RemoteQPN: v.qp.Num(), RemoteQKey: testQKey})
				u.expect(ctx, 2, WCSuccess)
				v.expect(ctx, 1, WCSuccess)
				const tos = 21 // the IPv4 header is in the last 20 of the 40 bytes of the GRH
				if got := v.buf[tos] & 3; got != want {
					t.Errorf("ECN is %d, want %d", got, want)
				}
			}
		})
	}
}

// TestFaultScope: a rule touches the queue pairs of its own context only, unless it is for the
// whole device.
func TestFaultScope(t *testing.T) {
	addr := testAddr()
	x, y := openTest(t, Config{Address: addr}), openTest(t, Config{Address: addr})
	must(x.AddFaults(faults(t, "packet drop", "packet drop,scope=device,first=1")...))(t)
	a, b := pair(t, y, y, endConfig{}, ConnectAttr{Timeout: hasty})
	ctx := testContext(t)
	a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	a.expect(ctx, 1, WCSuccess)
	got := x.Faults()
	if got[0].Candidates != 0 || got[1].Fired != 1 || a.counter("retransmits") == 0 {
		t.Errorf("%+v, %d retransmissions", got, a.counter("retransmits"))
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if _, err := x.AddFaults(); !errors.Is(err, ErrClosed) {
		t.Errorf("a rule for a closed context: %v", err)
	}
	if list := x.Faults(); len(list) != 2 || list[1].Fired != 1 {
		t.Errorf("after Close: %+v", list)
	}
}

// TestFaultChurn: rules come and go during traffic, whose data stay right.
func TestFaultChurn(t *testing.T) {
	for _, p := range peers {
		for name, texts := range map[string][4]string{
			"packets": {"packet duplicate,every=3", "packet reorder,every=5", "packet delay,time=100us,every=2", "packet drop,every=50"},
			"others": {"verb delay,verb=post_send,time=10us,every=3", "completion delay,time=50us,every=3",
				"peer rnr,every=3", "port speed,gbps=25,time=1ms,times=9,scope=device"},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) { churn(t, p.open, texts) })
		}
	}
}

func churn(t *testing.T, open func(testing.TB) (x, y *Context), texts [4]string) {
	x, y := open(t)
	a, b := pair(t, x, y, endConfig{bufSize: 20000}, ConnectAttr{PathMTU: 1024})
	ctx := testContext(t)
	rules := faults(t, texts[:]...)
	turns := make(chan int)
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		for i := range turns {
			set := []*Context{x, y}[i%2]
			id, err := set.AddFaults(rules...)
			if err == nil {
				_, err = set.RemoveFaults(id, id+1, id+2, id+3)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for i := range 200 {
		fill(a.buf, byte(i))
		select {
		case turns <- i:
		case err := <-ended:
			t.Fatal(err)
		}
		a.post(SendWR{ID: 1, Op: WRWrite, SGL: []SGE{a.mr.SGE(0, 20000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		a.expect(ctx, 1, WCSuccess)
		if !bytes.Equal(a.buf, b.buf) {
			t.Fatal("the bytes that arrived are others")
		}
	}
	close(turns)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFaultRefused: Open refuses a rule that cannot fire, and leaves nothing open.
func TestFaultRefused(t *testing.T) {
	r := Fault{}
	if _, err := Open(Config{Address: testAddr(), Faults: []Fault{r}}); err == nil {
		t.Error("a rule without a fault is taken")
	}
}
