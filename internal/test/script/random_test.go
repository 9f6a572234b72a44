package script

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gorxe/gorxe/internal/test/race"
)

// drawScript draws commands that a correct pair of devices survives.
func drawScript(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 7))
	kind := []string{"rc", "rc", "rc", "uc", "ud", "xrc"}[r.IntN(6)]
	lines := []string{fmt.Sprintf("connect %s mtu=%d psn=%d timeout=%d reads=%d srq=%d", kind, 256<<r.IntN(3),
		[]int{100, 1<<24 - 3}[r.IntN(2)], 8+r.IntN(8), 1+r.IntN(3), r.IntN(2)*64)}
	ops := []string{"send", "send-imm"}
	if kind != "ud" {
		ops = append(ops, "write", "write-imm")
	}
	if kind == "rc" {
		ops = append(ops, "read", "read", "fetch-add", "compare-swap", "atomic-write", "flush")
	}
	if kind == "xrc" {
		ops = append(ops, "read", "read", "fetch-add", "compare-swap")
	}
	if windows := kind == "rc" && r.IntN(4) == 0; windows {
		ops = append(ops, "bind", "local-inv", "send-inv")
	}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	host := func() string { return []string{"a", "b"}[r.IntN(2)] }
	if kind == "xrc" {
		host = func() string { return "a" }
	}
	for range 5 + r.IntN(40) {
		at := ""
		if r.IntN(3) == 0 {
			at = fmt.Sprintf(" at=%d", 1+r.IntN(3))
		}
		switch r.IntN(12) {
		case 0, 1, 2, 3:
			option := []string{"", "", "", " fence", " unsignaled", " solicited", " sges=3", " inline", " inline"}[r.IntN(8)]
			if len(ops) > 10 && r.IntN(8) == 0 {
				option = " rkey=window"
			}
			size := r.IntN(1 + r.IntN(1200))
			if kind == "ud" || option == " inline" {
				size %= 200
			}
			add("post %s %s %d at=%d%s", host(), ops[r.IntN(len(ops))], size, 8*r.IntN(64), option)
		case 4:
			add("recv %s %d count=%d", []string{"a", "b"}[r.IntN(2)], 1300, 1+r.IntN(3))
		case 5, 6:
			add("deliver %d%s", 1+r.IntN(3), at)
		case 7:
			add("drop%s", at)
		case 8:
			add("dup%s", at)
		case 9:
			add("delay%s", at)
		case 10:
			add("wait %dus", r.IntN(1+r.IntN(3000)))
		case 11:
			add("%s", []string{"deliver", "deliver 2 from=a together", "deliver 2 from=b together", "modify a sqd", "modify a rts"}[r.IntN(5)])
		}
	}
	return append(lines, "finish")
}

// TestRandomScripts: whatever is posted, lost, doubled and late, the devices do what the model
// says. Commands that cannot be executed, as the delivery of a packet that is not there, are left
// out.
func TestRandomScripts(t *testing.T) {
	conceded, finished := make(map[string]int), 0
	scripts := 500
	if race.Enabled {
		scripts = 50
	}
	for seed := range uint64(scripts) {
		lines := drawScript(seed)
		o := Play(lines)
		for o.Invalid != nil {
			lines = dropLine(lines, o.At)
			o = Play(lines)
		}
		if o.Problem != nil {
			t.Fatalf("seed %d: %v\n%s", seed, o.Problem, Report(Shrink(lines)))
		}
		if o.Script.conceded == "" {
			finished++
		} else {
			conceded[o.Script.conceded]++
		}
	}
	t.Logf("%d compared to the end; not compared because: %v", finished, conceded)
	if finished < scripts*3/5 {
		t.Errorf("only %d of %d scripts were compared to the end", finished, scripts)
	}
}

func dropLine(lines []string, i int) []string {
	return append(append([]string(nil), lines[:i]...), lines[i+1:]...)
}
