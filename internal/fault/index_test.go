package fault

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/wire"
)

func parsed(t testing.TB, texts ...string) (rules []Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// many makes n rules of a format with the rule's number.
func many(t testing.TB, n int, format string) (rules []Rule) {
	t.Helper()
	for i := range n {
		rules = append(rules, parsed(t, fmt.Sprintf(format, i))...)
	}
	return rules
}

// compares counts the rules that a packet is compared with.
func compares(s *Set, p *Packet) (n int) {
	var c candidates
	s.index(listOf(WherePacket, false)).ofPacket(p, &c)
	for c.next() != nil {
		n++
	}
	return n
}

// TestFewComparisons: of a thousand rules a packet is compared only with those that may concern it.
func TestFewComparisons(t *testing.T) {
	p := packet(wire.UCSendOnly, 7, 4, Either)
	for format, most := range map[string]int{
		"packet drop,size=%d":                                 1,
		"packet drop,psn=%d":                                  1,
		"packet drop,qp=0x1%03d":                              1,
		"packet drop,psn=77,size=%d":                          0,
		"packet drop,peer=10.1.2.3,psn=1%d":                   1,
		"packet drop,opcode=RC_SEND_*,p=0.0%d1,scope=session": 0,
		"peer silent,qp=0x2%03d":                              1,
	} {
		s := NewSet(time.Now)
		if _, err := s.Add(many(t, 300, format)...); err != nil {
			t.Fatal(err)
		}
		if n := compares(s, p); n > most {
			t.Errorf("%s: %d comparisons, want %d at most", format, n, most)
		}
	}
	if !p.parsed || p.length != 4 {
		t.Errorf("the packet was parsed: %v, %d bytes", p.parsed, p.length)
	}
}

// TestIndexOrder: rules of all parts of the index are asked in their order.
func TestIndexOrder(t *testing.T) {
	s := newSet(t, "packet mark", "packet mark,psn=7", "packet mark,size=100", "packet mark,qp=0x11", "packet mark,peer=10.0.0.2",
		"packet mark,opcode=RC_SEND_ONLY", "packet mark,qp=0x22,direction=in", "packet mark,size=1-200", "packet mark,psn=7,qp=0x11", "packet mark,qp=RC")
	p := packet(wire.RCSendOnly, 7, 100, Either)
	for range 2 {
		var ids []uint64
		list, _ := s.Packet(p, false, nil)
		for i := range list {
			ids = append(ids, list[i].of.id)
		}
		if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(ids, want) {
			t.Errorf("rules %v fire, want %v", ids, want)
		}
		p.SrcQP, p.DestQP = 0x11, 0x22
	}
}

// TestComparedBound: a user who shares the daemon cannot have a packet, a verb or a work request
// compared with many rules.
func TestComparedBound(t *testing.T) {
	for format, what := range map[string]string{
		"packet drop,p=0.0%d1,seed=7":                               "packet",
		"packet drop,size=1-1%d":                                    "packet",
		"packet drop,psn=5,p=0.0%d1":                                "packet",
		"verb delay,verb=create_qp,time=1ms,p=0.0%d1":               "verb",
		"completion delay,time=1ms,p=0.0%d1":                        "work request",
		"peer rnr,p=0.0%d1":                                         "work request",
		"packet drop,label=x%d":                                     "packet",
		"packet corrupt,bit=%d,opcode=RC_SEND_ONLY|RC_SEND_*,p=1%%": "packet",
	} {
		s := NewSet(time.Now)
		s.Bound(1000, 20)
		if _, err := s.Add(many(t, 20, format)...); err != nil {
			t.Error(err)
		}
		_, err := s.Add(many(t, 1, format)...)
		if err == nil || !strings.Contains(err.Error(), "concern the same "+what) || s.Len() != 20 {
			t.Errorf("%s: %d rules, %v", format, s.Len(), err)
		}
	}
	s := NewSet(time.Now)
	s.Bound(1000, 20)
	if _, err := s.Add(many(t, 1000, "packet drop,size=%d")...); err != nil {
		t.Error(err)
	}
}

// TestConcerns: a set asks only for the packets of queue pairs that its rules may concern.
func TestConcerns(t *testing.T) {
	out := End{QP: 0x11, Type: "RC", Side: Out, Device: "rxe0", Of: processes}
	in := End{QP: 0x22, Type: "RC", Side: In, Device: "rxe0", Of: processes}
	for text, want := range map[string][2]bool{
		"packet drop":                           {true, true},
		"packet drop,direction=out":             {true, false},
		"packet drop,direction=in":              {false, true},
		"packet drop,psn=77,qp=0x123456":        {false, false},
		"packet drop,qp=0x11":                   {true, false},
		"packet drop,psn=1,qp=0x22":             {false, true},
		"packet drop,size=7,qp=UC":              {false, false},
		"packet drop,label=left":                {true, false},
		"packet drop,command=server":            {false, true},
		"packet drop,device=rxe1":               {false, false},
		"verb fail,verb=create_qp,errno=ENOMEM": {false, false},
	} {
		s := newSet(t, text)
		if got := [2]bool{s.Concerns(&out, false), s.Concerns(&in, false)}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if new(Set).Concerns(&out, false) || (*Set)(nil).Concerns(&in, true) {
		t.Error("no rules concern a queue pair")
	}
}

// TestShadowed: a rule that can never fire, because another takes all that it could hit, is
// refused. The error names both.
func TestShadowed(t *testing.T) {
	for _, c := range []struct {
		first, second string
		shadowed      bool
	}{
		{"packet drop", "packet delay,time=2ms", true},
		{"packet delay,time=2ms", "packet duplicate,every=100", false},
		{"packet drop,opcode=RC_SEND_*", "packet mark,opcode=RC_SEND_ONLY", true},
		{"packet drop,opcode=RC_SEND_ONLY", "packet mark,opcode=RC_SEND_*", false},
		{"packet drop,p=1%", "packet mark", false},
		{"packet drop,qp=RC", "packet mark,opcode=RC_SEND_ONLY", true},
		{"packet drop,size=1-100", "packet mark,size=7", true},
		{"packet drop,size=1-100", "packet mark,size=7-101", false},
		{"packet drop,direction=out", "packet mark", false},
		{"packet drop", "packet mark,direction=in", true},
		{"packet mark,direction=in", "packet drop", false},
		{"peer silent", "packet drop,first=1", true},
		{"packet drop,first=1", "peer silent", false},
		{"packet mark,first=1", "packet drop,scope=device", true},
		{"packet drop", "packet mark,scope=device", false},
		{"packet drop,label=a", "packet mark,label=b", false},
		{"packet drop,psn=7", "packet mark,psn=7", true},
		{"packet drop,psn=7", "packet mark,psn=8", false},
		{"packet drop,qp=0x11", "packet mark,qp=0x11,psn=8", true},
		{"packet drop,peer=10.0.0.1", "packet mark", false},
		{"verb fail,verb=create_*,errno=ENOMEM", "verb delay,verb=create_qp,time=1ms", true},
		{"verb fail,verb=create_qp,errno=ENOMEM,after=10", "verb fail,verb=create_qp,errno=EINVAL", false},
		{"completion delay,time=1ms", "completion fail,status=IBV_WC_FATAL_ERR,opcode=SEND", true},
		{"completion fail,status=IBV_WC_FATAL_ERR", "device fail,event=IBV_EVENT_QP_FATAL,first=1", false},
		{"device fail,event=IBV_EVENT_QP_FATAL", "completion fail,status=IBV_WC_FATAL_ERR,first=1", true},
		{"device fail,event=IBV_EVENT_SRQ_ERR", "completion fail,status=IBV_WC_FATAL_ERR,opcode=RECV", false},
		{"peer rnr", "peer rnr,first=1", true},
		{"limits set,max_qp=4", "limits set,max_qp=4,max_cq=3", false},
		{"port down,scope=device", "port down,scope=device", false},
	} {
		rules := parsed(t, c.first, c.second)
		err := Shadowed(rules)
		s := NewSet(time.Now)
		_, added := s.Add(rules...)
		if (err != nil) != c.shadowed || (added != nil) != c.shadowed {
			t.Errorf("%s; %s: %v, %v", c.first, c.second, err, added)
			continue
		}
		if err != nil && (!strings.Contains(err.Error(), rules[0].String()) || !strings.Contains(err.Error(), rules[1].String())) {
			t.Errorf("the error does not name both rules: %v", err)
		}
	}
}

// TestBlame: rules that hit a queue pair explain why it got no answer. Others do not.
func TestBlame(t *testing.T) {
	s := newSet(t, "packet mark", "packet drop,psn=7", "packet drop,psn=8", "peer rnr")
	s.Packet(packet(wire.RCSendOnly, 7, 0, Out), false, nil)
	s.NoReceive(&Work{Device: "rxe0", QP: 0x22, Type: "RC"}, false)
	lost := []string{"2 (packet drop,psn=0x7)"}
	if got := s.Blame(0x11, 0x99, false); !slices.Equal(got, lost) {
		t.Errorf("%q", got)
	}
	if got := s.Blame(0x99, 0x11, false); !slices.Equal(got, lost) {
		t.Errorf("of the peer: %q", got)
	}
	if got := s.Blame(0x33, 0, false); got != nil {
		t.Errorf("of another queue pair: %q", got)
	}
	if got := s.Blame(0x22, 0, true); !slices.Equal(got, []string{"4 (peer rnr)"}) {
		t.Errorf("of receives: %q", got)
	}
	if s.Close(); s.Blame(0x11, 0, false) != nil || (*Set)(nil).Blame(0x11, 0, false) != nil {
		t.Error("rules that have ended are to blame")
	}
}
