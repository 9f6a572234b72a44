package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/test/race"
	"github.com/gorxe/gorxe/wire"
)

var (
	here, there = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	epoch       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// packet makes a packet from queue pair 0x11 here to 0x22 there.
func packet(op wire.Opcode, psn wire.PSN, payload int, mine Direction) *Packet {
	h := wire.Headers{Opcode: op, DestQP: 0x22, PSN: psn, PKey: wire.DefaultPKey, QKey: 0x11111111, SrcQP: 0x11}
	return &Packet{Device: "rxe0", Data: append(h.Append(nil), make([]byte, payload)...),
		Src: here, Dst: there, SrcQP: 0x11, DestQP: 0x22, Mine: mine, Of: processes}
}

// processes are those of the queue pairs 0x11 and 0x22.
func processes(n wire.QPN) Process {
	return map[wire.QPN]Process{0x11: {7, "client", "left"}, 0x22: {8, "server", "right"}}[n]
}

func newSet(t testing.TB, texts ...string) *Set {
	t.Helper()
	s := NewSet(func() time.Time { return epoch })
	for _, text := range texts {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// first asks a set, and returns the first rule that fires.
func (s *Set) first(p *Packet, wholeDevice bool) (h Hit, hit bool) {
	list, _ := s.Packet(p, wholeDevice, nil)
	if len(list) == 0 {
		return h, false
	}
	return list[0], true
}

// TestSelects: which packets are candidates of a rule.
func TestSelects(t *testing.T) {
	out := packet(wire.RCSendOnly, 7, 100, Out)
	for _, c := range []struct {
		rule string
		p    *Packet
		want bool
	}{
		{"packet drop", out, true},
		{"packet drop", packet(wire.RCSendOnly, 7, 100, 0), false},
		{"packet drop,direction=out", out, true},
		{"packet drop,direction=in", out, false},
		{"packet drop,direction=in", packet(wire.RCSendOnly, 7, 100, In), true},
		{"packet drop,direction=in", packet(wire.RCSendOnly, 7, 100, Either), true},
		{"packet drop,device=rxe0", out, true},
		{"packet drop,device=rxe1", out, false},
		{"packet drop,qp=0x11", out, true},
		{"packet drop,qp=0x22", out, false},
		{"packet drop,qp=0x22", packet(wire.RCSendOnly, 7, 100, In), true},
		{"packet drop,qp=0x22", packet(wire.RCSendOnly, 7, 100, Either), true},
		{"packet drop,qp=RC", out, true},
		{"packet drop,qp=UC", out, false},
		{"packet drop,peer=10.0.0.2", out, true},
		{"packet drop,peer=10.0.0.1", out, false},
		{"packet drop,peer=10.0.0.1", packet(wire.RCSendOnly, 7, 100, In), true},
		{"packet drop,opcode=RC_SEND_ONLY", out, true},
		{"packet drop,opcode=rc_send_*", out, true},
		{"packet drop,opcode=RC_SEND_LAST|RC_ACKNOWLEDGE", out, false},
		{"packet drop,size=100", out, true},
		{"packet drop,size=0-99", out, false},
		{"packet drop,psn=0x7", out, true},
		{"packet drop,psn=8", out, false},
		{"packet drop,pid=7", out, true},
		{"packet drop,pid=7,command=server", out, false},
		{"packet drop,pid=8", out, false}, // the end of another session
		{"packet drop,label=left", out, true},
		{"packet drop,label=right", out, false},
		{"packet drop,pid=8,command=server", packet(wire.RCSendOnly, 7, 100, In), true},
		{"packet drop,direction=in,command=server", packet(wire.RCSendOnly, 7, 100, Either), true},
		{"packet drop,direction=out,command=server", packet(wire.RCSendOnly, 7, 100, Either), false},
		{"peer silent,command=client", out, true},
		{"peer silent,command=other", out, false},
		{"packet truncate,length=111", out, true},
		{"packet truncate,length=112", out, false},
		{"packet corrupt,bit=895", out, true},
		{"packet corrupt,bit=896", out, false},
		{"packet corrupt,field=rkey", out, false},
		{"packet corrupt,field=pkey", out, true},
		{"packet drop", packet(wire.OpCNP, 0, 0, Out), false},
	} {
		h, hit := newSet(t, c.rule).first(c.p, false)
		if hit != c.want || hit && h.String() != c.rule {
			t.Errorf("%s: %v", c.rule, hit)
		}
	}
	for _, short := range [][]byte{nil, {4}, make([]byte, 11)} {
		if _, hit := newSet(t, "packet drop").first(&Packet{Data: short, Mine: Out}, false); hit {
			t.Error("a packet without a BTH is a candidate")
		}
	}
}

// hits returns which of n packets a rule hits, from 1.
func hits(s *Set, n int) (list []int) {
	for i := range n {
		if _, hit := s.first(packet(wire.RCSendOnly, wire.PSN(i), 0, Out), false); hit {
			list = append(list, i+1)
		}
	}
	return list
}

func TestWhen(t *testing.T) {
	for rule, want := range map[string][]int{
		"packet drop,first=2":                 {1, 2},
		"packet drop,every=4":                 {4, 8},
		"packet drop,count=3":                 {1, 2, 3},
		"packet drop,after=8":                 {9, 10},
		"packet drop,after=2,first=1":         {3},
		"packet drop,after=1,every=3":         {4, 7, 10},
		"packet drop,after=1,every=3,count=2": {4, 7},
		"packet drop,every=2,first=5":         {2, 4},
		"packet drop,after=5s":                nil,
	} {
		if got := hits(newSet(t, rule), 10); !slices.Equal(got, want) {
			t.Errorf("%s hits %v, want %v", rule, got, want)
		}
	}
	// A time spares the candidates before it, and those are not numbered.
	now := epoch
	s := NewSet(func() time.Time { return now })
	r, _ := Parse("packet drop,after=5s,first=1")
	s.Add(r) //nolint:errcheck // the next line sees it
	first := hits(s, 3)
	now = now.Add(5 * time.Second)
	if second := hits(s, 3); first != nil || !slices.Equal(second, []int{1}) {
		t.Errorf("hits %v before, and %v after", first, second)
	}
}

// TestUntil: a rule ends with its time.
func TestUntil(t *testing.T) {
	now := epoch
	s := NewSet(func() time.Time { return now })
	r, err := Parse("packet drop,after=2s,until=5s")
	if err == nil {
		_, err = s.Add(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true, true, true, false, false} {
		now = epoch.Add(time.Duration(i) * time.Second)
		if _, got := s.first(packet(wire.RCSendOnly, 1, 0, Either), false); got != want {
			t.Errorf("after %d s: hit %v", i, got)
		}
	}
}

// TestPort: a rule for a port is in force for its time, and again after a pause.
func TestPort(t *testing.T) {
	s := newSet(t, "port down,time=2s,times=2,after=1s,scope=device,device=rxe0", "port speed,gbps=25,time=10s,scope=device")
	at := epoch
	var down []bool
	for range 9 {
		p, next := s.Port("rxe0", at)
		if want := min(25_000, 25_000*int(10-at.Sub(epoch)/time.Second)); p.Mbps != want {
			t.Errorf("%v: %d Mb/s", at.Sub(epoch), p.Mbps)
		}
		down = append(down, p.Down)
		if p, _ := s.Port("rxe1", at); p.Down {
			t.Errorf("%v: another device is down", at.Sub(epoch))
		}
		if next.IsZero() || next.Sub(epoch)%time.Second != 0 || !next.After(at) {
			t.Fatalf("%v: the next change is at %v", at.Sub(epoch), next)
		}
		at = at.Add(time.Second)
	}
	if want := []bool{false, true, true, false, false, true, true, false, false}; !slices.Equal(down, want) {
		t.Errorf("down is %v, want %v", down, want)
	}
	if p, next := s.Port("rxe0", epoch.Add(10*time.Second)); p.Down || p.Mbps != 0 || !next.IsZero() {
		t.Errorf("at the end %+v, %v", p, next)
	}
	if list := s.Status(); list[0].Fired != 2 || list[1].Fired != 1 {
		t.Errorf("%+v", list)
	}
}

// TestVerbAndWork: a rule selects calls and work requests by all that it names.
func TestVerbAndWork(t *testing.T) {
	call := Verb{Device: "rxe0", Name: "create_qp", Process: Process{7, "app", "left"}}
	for text, want := range map[string]bool{
		"verb fail,verb=create_qp,errno=EIO":                     true,
		"verb fail,verb=*,errno=EIO":                             true,
		"verb fail,verb=create_*|modify_qp,errno=EIO":            true,
		"verb fail,verb=modify_qp,errno=EIO":                     false,
		"verb fail,verb=create_qp,errno=EIO,pid=7,command=app":   true,
		"verb fail,verb=create_qp,errno=EIO,pid=8":               false,
		"verb fail,verb=create_qp,errno=EIO,label=left":          true,
		"verb fail,verb=create_qp,errno=EIO,label=right":         false,
		"verb fail,verb=create_qp,errno=EIO,command=ap":          false,
		"verb fail,verb=create_qp,errno=EIO,device=rxe1":         false,
		"completion fail,status=IBV_WC_FATAL_ERR":                false,
		"verb delay,verb=create_qp,time=1ms,device=rxe0,count=1": true,
		"verb delay,verb=rdma_*|open_device,time=1ms":            false,
	} {
		if _, got := newSet(t, text).Verb(&call, false); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if got := newSet(t, text).HasVerb("create_qp"); got != (want || strings.Contains(text, "verb=create_qp")) {
			t.Errorf("%s is about create_qp: %v", text, got)
		}
	}
	work := Work{Device: "rxe0", QP: 0x11, Type: "RC", Op: "RDMA_WRITE"}
	for text, want := range map[string]bool{
		"completion fail,status=IBV_WC_FATAL_ERR":                   true,
		"completion fail,status=IBV_WC_FATAL_ERR,opcode=RDMA_*":     true,
		"completion fail,status=IBV_WC_FATAL_ERR,opcode=RDMA_READ":  false,
		"completion fail,status=IBV_WC_FATAL_ERR,qp=RC":             true,
		"completion fail,status=IBV_WC_FATAL_ERR,qp=UD":             false,
		"completion fail,status=IBV_WC_FATAL_ERR,qp=17,device=rxe0": true,
		"completion fail,status=IBV_WC_FATAL_ERR,qp=18":             false,
		"completion fail,status=IBV_WC_FATAL_ERR,device=rxe1":       false,
		"peer rnr": false,
	} {
		if _, got := newSet(t, text).Broken(&work, false); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]bool{"peer rnr": true, "peer rnr,qp=17": true, "peer rnr,qp=UC": false, "peer rnr,device=rxe1": false} {
		if got := newSet(t, text).NoReceive(&work, false); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	work.Process = Process{7, "app", "left"}
	for text, want := range map[string]bool{
		"device remove": true, "device remove,opcode=RDMA_WRITE,time=1s": true, "device remove,opcode=SEND": false,
		"peer killed": true, "peer killed,pid=7,command=app": true, "peer killed,pid=8": false, "peer killed,command=other": false,
		"peer killed,opcode=RECV": false, "peer silent": false,
	} {
		if _, got := newSet(t, text).Broken(&work, false); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]bool{
		"completion fail,status=IBV_WC_FATAL_ERR,pid=7,command=app": true, "completion fail,status=IBV_WC_FATAL_ERR,pid=8": false,
		"device remove,command=other": false, "device remove,label=left": true, "device remove,label=right": false,
	} {
		if _, got := newSet(t, text).Broken(&work, false); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if newSet(t, "peer rnr,pid=8").NoReceive(&work, false) || !newSet(t, "peer rnr,pid=7").NoReceive(&work, false) {
		t.Error("a rule about receives names a process")
	}
	recv := Work{Device: "rxe0", QP: 0x11, Type: "RC", Op: "RECV"}
	if _, got := newSet(t, "completion delay,time=1ms").Broken(&recv, false); got {
		t.Error("a receive is delayed")
	}
}

// TestScope: a rule for whole devices is asked only as such, and one for a session only as that.
func TestScope(t *testing.T) {
	work, call := Work{Device: "rxe0", QP: 0x11, Type: "RC", Op: "SEND"}, Verb{Device: "rxe0", Name: "create_qp"}
	for _, text := range []string{
		"verb fail,verb=create_qp,errno=EIO", "completion fail,status=IBV_WC_FATAL_ERR", "device fail,event=IBV_EVENT_QP_FATAL",
		"device remove", "peer rnr", "peer silent", "peer half_open,direction=out",
	} {
		for _, wide := range []bool{false, true} {
			if wide {
				text += ",scope=device"
			}
			s := newSet(t, text)
			for _, ask := range []bool{false, true} {
				_, verb := s.Verb(&call, ask)
				_, broken := s.Broken(&work, ask)
				_, packet := s.first(&Packet{Data: make([]byte, 12), Mine: Out, SrcQP: 0x11}, ask)
				if got := verb || broken || packet || s.NoReceive(&work, ask); got != (ask == wide) {
					t.Errorf("%s: asked for whole devices %v: fires %v", text, ask, got)
				}
			}
		}
	}
}

// TestSeed: a seed always draws the same, another one something else, and in all as many as p says.
func TestSeed(t *testing.T) {
	const n = 100_000
	one, again := hits(newSet(t, "packet drop,p=0.1,seed=1"), n), hits(newSet(t, "packet drop,p=0.1,seed=1"), n)
	other := hits(newSet(t, "packet drop,p=0.1,seed=2"), n)
	if !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Error("the seed does not decide")
	}
	for _, list := range [][]int{one, other} {
		if got := float64(len(list)) / n; math.Abs(got-0.1) > 0.005 {
			t.Errorf("p=0.1 hits %v", got)
		}
	}
	// These numbers are what a seed means, in every version.
	if want := []int{6, 9, 13}; !slices.Equal(one[:3], want) {
		t.Errorf("seed 1 begins with %v, want %v", one[:3], want)
	}
	s := newSet(t, "packet delay,time=10ms,jitter=2ms")
	for range 1000 {
		h, _ := s.first(packet(wire.RCSendOnly, 0, 0, Out), false)
		if w := h.Wait(); w < 8*time.Millisecond || w > 12*time.Millisecond {
			t.Fatalf("a delay of %v", w)
		}
	}
}

// TestOrder: all rules that fire act on a packet, up to one that loses it.
func TestOrder(t *testing.T) {
	s := newSet(t, "packet delay,time=2ms", "packet drop,every=2", "packet mark", "packet duplicate,scope=device", "packet duplicate,every=5")
	for i := range 10 {
		list, lost := s.Packet(packet(wire.RCSendOnly, wire.PSN(i), 0, Out), false, nil)
		var acts []What
		for _, h := range list {
			acts = append(acts, h.What)
		}
		want := []What{Delay, Mark}
		switch {
		case i%2 == 1:
			want = []What{Delay, Drop}
		case i == 8: // the fifth that is not lost
			want = []What{Delay, Mark, Duplicate}
		}
		if !slices.Equal(acts, want) || lost != (i%2 == 1) {
			t.Errorf("packet %d: %v, lost %v, want %v", i, acts, lost, want)
		}
	}
	if _, hit := s.first(packet(wire.RCSendOnly, 5, 0, Out), true); !hit {
		t.Error("a rule for the whole device is not asked")
	}
	var got [][2]uint64
	for _, st := range s.Status() {
		got = append(got, [2]uint64{st.Candidates, st.Fired})
	}
	if want := [][2]uint64{{10, 10}, {10, 5}, {5, 5}, {1, 1}, {5, 1}}; !slices.Equal(got, want) {
		t.Errorf("candidates and hits %v, want %v", got, want)
	}
}

func TestChangeField(t *testing.T) {
	value := uint64(3)
	for _, f := range fields {
		for _, op := range []wire.Opcode{wire.RCWriteOnlyImm, wire.RCAck, wire.UDSendOnly, wire.RCSendOnlyInv} {
			if !f.in(op) {
				continue
			}
			was := packet(op, 77, 0, Out).Data
			for _, v := range []*uint64{nil, &value} {
				if v != nil && *v > f.max() {
					continue
				}
				is := slices.Clone(was)
				(&Effect{Field: f.name, Value: v}).ChangeField(is)
				if v == nil && bytes.Equal(is, was) {
					t.Errorf("%s of %v: unchanged", f.name, op)
				}
				if f.name == "psn" && v != nil && psnOf(is) != 3 {
					t.Errorf("the PSN is %d", psnOf(is))
				}
				differ := 0
				for i := range is {
					if is[i] != was[i] {
						differ++
					}
				}
				if differ > f.bytes {
					t.Errorf("%s of %v: %d bytes differ", f.name, op, differ)
				}
			}
		}
	}
}

func TestReport(t *testing.T) {
	s := newSet(t, "packet drop,first=1,name=lost", "packet mark,psn=9999")
	hits(s, 3)
	list := s.Status()
	if missed := Missed(list); len(missed) != 1 || missed[0].ID != 2 {
		t.Errorf("missed %+v", missed)
	}
	var b strings.Builder
	if err := WriteTable(&b, list); err != nil {
		t.Fatal(err)
	}
	const want = `ID  CANDIDATES  FIRED  FIRST                                          LAST                                           RULE
1   3           1      03:04:05.000000 rxe0 qp 0x000011 psn 0x000000  03:04:05.000000 rxe0 qp 0x000011 psn 0x000000  packet drop,name=lost,first=1
2   0           0      -                                              -                                              packet mark,psn=0x270f
`
	if b.String() != want {
		t.Errorf("the table is\n%swant\n%s", b.String(), want)
	}
	text, err := json.Marshal(list[0])
	if want := `{"id":1,"name":"lost","rule":"packet drop,name=lost,first=1","candidates":3,"fired":1,` +
		`"first":{"time":"2026-01-02T03:04:05Z","device":"rxe0","qp":17,"psn":0,"opcode":"RC_SEND_ONLY"},` +
		`"last":{"time":"2026-01-02T03:04:05Z","device":"rxe0","qp":17,"psn":0,"opcode":"RC_SEND_ONLY"}}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// TestManyRules: a set is bounded, and rules come and go while packets pass.
func TestManyRules(t *testing.T) {
	s := newSet(t)
	r, _ := Parse("packet mark,every=3")
	rules := slices.Repeat([]Rule{r}, MaxRules)
	var passing sync.WaitGroup
	end := make(chan struct{})
	began := make(chan struct{}, 2)
	for range 2 {
		passing.Go(func() {
			p := packet(wire.RCSendOnly, 1, 10, Out)
			for i := 0; ; i++ {
				s.first(p, false)
				if i == 0 {
					began <- struct{}{}
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	<-began
	<-began
	times := uint64(100)
	if race.Enabled {
		times = 10
	}
	for range times {
		id, err := s.Add(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	id, err := s.Add(rules...)
	if err != nil || id != times+1 || s.Len() != MaxRules {
		t.Fatalf("%d rules from %d on: %v", s.Len(), id, err)
	}
	if _, err := s.Add(r); err == nil || !strings.Contains(err.Error(), "remove some first") {
		t.Errorf("one rule more: %v", err)
	}
	if _, err := s.Remove(id, 7); err == nil || s.Len() != MaxRules {
		t.Errorf("a rule that is not there was removed: %v", err)
	}
	if removed := s.Clear(); len(removed) != MaxRules {
		t.Errorf("%d were removed", len(removed))
	}
	s.Bound(2, 0)
	if _, err := s.Add(r, r, r); err == nil || s.Len() != 0 {
		t.Errorf("%d rules in a set of 2: %v", s.Len(), err)
	}
	s.Add(r) //nolint:errcheck // Close is next
	s.Close()
	close(end)
	passing.Wait()
	if _, err := s.Add(r); err == nil || s.Has(WherePacket, false) || s.Len() != 1 {
		t.Errorf("a closed set: %v, %d rules", err, s.Len())
	}
}

func BenchmarkPacket(b *testing.B) {
	p := packet(wire.RCSendOnly, 1, 1024, Out)
	for _, n := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			s := newSet(b)
			r, _ := Parse("packet drop,p=1e-9")
			s.Add(slices.Repeat([]Rule{r}, n)...) //nolint:errcheck // the rule is valid
			b.ReportAllocs()
			for b.Loop() {
				s.first(p, false)
			}
		})
	}
}

// TestLimits: the lowest limit counts, and the rule that set it has the calls.
func TestLimits(t *testing.T) {
	s := NewSet(time.Now)
	for _, text := range []string{"limits set,max_qp=9,max_cq=5", "limits set,max_qp=4", "limits set,max_mr=2,device=rxe1"} {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	l := s.Limits("rxe0")
	if most, ok := l.Lowest("max_qp"); !ok || most != 4 {
		t.Errorf("max_qp=%d", most)
	}
	if _, ok := l.Lowest("max_mr"); ok {
		t.Error("another device's limit")
	}
	l.Compared("max_qp", false)
	l.Compared("max_qp", true)
	l.Compared("max_cq", false)
	l.Compared("max_mr", true)
	list := s.Status()
	if a := list[0]; a.Candidates != 1 || a.Fired != 0 {
		t.Errorf("%+v", a)
	}
	if b := list[1]; b.Candidates != 2 || b.Fired != 1 || b.First.Limit != "max_qp" || !strings.HasSuffix(b.First.String(), " rxe0 max_qp") {
		t.Errorf("%+v", b)
	}
	if s.Fixed(3) == nil || s.Fixed(9) != nil || s.Fixed() == nil || NewSet(time.Now).Limits("rxe0") != nil {
		t.Error("which rules are fixed, or which limits there are")
	}
}
