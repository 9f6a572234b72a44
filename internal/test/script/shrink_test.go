package script

import (
	"slices"
	"strings"
	"testing"
)

// TestLeaveOut: of many lines those remain that the problem needs.
func TestLeaveOut(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, strings.Repeat("x", i))
	}
	need := []string{lines[3], lines[4], lines[70], lines[99]}
	got := leaveOut(lines, func(c []string) bool {
		return !slices.ContainsFunc(need, func(s string) bool { return !slices.Contains(c, s) })
	})
	if !slices.Equal(got, need) {
		t.Errorf("%d lines are left: %q", len(got), got)
	}
}

// TestLeaveOutTwo: a command can be left out only if another one changes with it.
func TestLeaveOutTwo(t *testing.T) {
	fails := func(c []string) bool {
		return slices.Equal(c, []string{"post", "post", "drop at=2"}) || slices.Equal(c, []string{"post", "drop at=1"})
	}
	lines := []string{"post", "post", "drop at=2"}
	if got := leaveOut(lines, fails); len(got) != 3 {
		t.Fatalf("left out without the other one: %q", got)
	}
	if got := leaveOutTwo(lines, fails); !slices.Equal(got, []string{"post", "drop at=1"}) {
		t.Errorf("%q", got)
	}
}

// TestSimplify: options go and numbers become small, as far as the problem stays.
func TestSimplify(t *testing.T) {
	got := simplify([]string{"post write 777 at=64 fence"}, 0, func(c []string) bool {
		words := strings.Fields(c[0])
		return slices.Contains(words, "write") && slices.ContainsFunc(words, func(w string) bool { return len(w) == 3 })
	})
	if got != "post write 100" {
		t.Errorf("%q", got)
	}
	got = simplify([]string{"wait 7654321ns"}, 0, func(c []string) bool { return len(strings.Fields(c[0])) == 2 })
	if got != "wait 10us" {
		t.Errorf("%q", got)
	}
}

// TestShrinkNothing: there is nothing to reduce without a problem.
func TestShrinkNothing(t *testing.T) {
	if got := Shrink([]string{"connect rc", "post write 10", "drop", "finish"}); got != nil {
		t.Errorf("%q", got)
	}
}

// TestInvalid: commands that cannot be executed say why.
func TestInvalid(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"post write 10", "connect comes first"},
		{"connect rc mtu=300", "no MTU of 300"},
		{"connect rc psn=16777216", "from 0 to 16777215"},
		{"connect rc access=some", "access is"},
		{"connect rc\nconnect rc", "no command connect"},
		{"connect rc\nfly", "no command fly"},
		{"connect rc\npost jump 10", "give an operation"},
		{"connect rc\npost write 10 rkey=good", "rkey is"},
		{"connect rc\npost write 10 speed=9", "no option speed"},
		{"connect rc\npost write 10000000", "more memory"},
		{"connect rc\npost write -3", "no room"},
		{"connect uc\npost bind 10", "only RC"},
		{"connect rc\ndeliver 1", "only 0 such packets"},
		{"connect rc\ndeliver 1 from=c", "give packets as"},
		{"connect rc\npost a write 1\npost b write 1\ndeliver 2 together", "do not arrive together"},
		{"connect rc\nwait", "give a duration"},
		{"connect rc\nwait -3s", "from 0 to 1h"},
		{"connect rc\nmodify a up", "give a state"},
		{"connect rc\nlimit b 3", "connect an SRQ"},
		{"connect rc\npost fetch-add at=3", "remote_addr"},
	} {
		o := Play(strings.Split(c.line, "\n"))
		if o.Invalid == nil || !strings.Contains(o.Invalid.Error(), c.want) || o.Problem != nil {
			t.Errorf("%q: %v, %v, want %q", c.line, o.Invalid, o.Problem, c.want)
		}
	}
}

// TestJudge: what a device must not do is found, here what a changed packet makes it do.
func TestJudge(t *testing.T) {
	lines := []string{"connect rc", "recv 10 count=2", "post send 10", "deliver 1", "alter psn=99", "deliver", "finish"}
	if o := Play(lines); o.Problem != nil || o.Script.conceded == "" {
		t.Errorf("an altered packet is not the devices' fault: %v", o.Problem)
	}
	s := &Script{}
	for _, c := range []string{"connect rc", "recv 10", "post send 10"} {
		playLine(t, s, c)
	}
	s.hosts[1].expect[0].data[3] ^= 1 // as if another message had been sent
	playLine(t, s, "deliver")
	if len(s.problems) != 1 || s.problems[0].Kind != "data" {
		t.Errorf("problems: %v", s.problems)
	}
	s = &Script{}
	playLine(t, s, "connect rc")
	s.hosts[1].model[200] ^= 1
	playLine(t, s, "finish")
	if len(s.problems) != 1 || !strings.Contains(s.problems[0].Text, "memory at 200") {
		t.Errorf("problems: %v", s.problems)
	}
}

func playLine(t *testing.T, s *Script, line string) {
	t.Helper()
	words := strings.Fields(line)
	list := parse(t, line)
	if _, err := s.do(words[0], list); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// TestLadder: the ladder shows what was lost and doubled.
func TestLadder(t *testing.T) {
	o := Play([]string{"connect rc", "post write 8", "dup", "deliver 2", "drop", "deliver", "wait 200ms", "deliver"})
	if o.Problem != nil || o.Invalid != nil {
		t.Fatal(o.Problem, o.Invalid)
	}
	var b strings.Builder
	if err := o.Script.WriteLadder(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RDMA_WRITE_ONLY psn 0x000064", "doubled by the script", "lost by the script", "|x-"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
