package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// raceCase is what three processes do (testdata/races.c), and whether accesses of it conflict
// without an order.
type raceCase struct {
	group   string
	scripts [3]string
	race    bool
}

func (c *raceCase) String() string { return strings.Join(c.scripts[:], " | ") }

// raceCases are the cases. The order of the specification decides what is a race (IBA 10.8.3.3,
// 9.5), whatever the sanitizer finds.
func raceCases() (list []raceCase) {
	add := func(group, scripts string, race bool) {
		c := raceCase{group: group, race: race}
		for i, s := range strings.Split(scripts, "|") {
			c.scripts[i] = strings.TrimSpace(s)
		}
		list = append(list, c)
	}
	// Each pair of a WRITE, a READ and an atomic.
	for _, a := range "wra" {
		for _, b := range "wra" {
			conflict := (a == 'w' || b == 'w' || a != b)
			first, second := string(a)+"2/0", string(b)+"2/0"
			add("two processes", first+" | "+second, conflict)
			add("two processes", first+" p s1 | x0 "+second, false)
			add("two processes", first+" s1 | x0 "+second, conflict)
			add("two queue pairs of one process", first+" "+second+"k", conflict)
			if conflict && b == 'w' {
				add("two processes", first+" s2 | x2 "+second+" | x0 s1", a == 'r')
				add("two queue pairs of one process", first+" p "+second+"k", false)
			}
		}
	}
	add("two processes", "r2/0 s2f | x2 w2/0 | x0 s1", false)
	for _, c := range []struct {
		group     string
		race, not []string
	}{
		{"one queue pair", []string{
			"r2/0 w2/0", "r2/0 a2/0",
		}, []string{
			"w2/0 w2/0", "w2/0 r2/0", "r2/0 w2/0f", "r2/0 p w2/0", "r2/0 a2/0f", "a2/0 w2/0", "w2/0 a2/0", "a2/0 r2/0", "r2/0 w2/64f w2/0",
		}},
		{"memory of its own", []string{
			"r2/0<128 w1/0<128", "r2/0<128 w1/0<128f", "r2/0<128 r1/0<128", "a2/0<128 r1/64<128", "r2/0<128 | w0/128", "w2/0<128 | w0/128", "s2/0+8<128 | w0/128 | x0",
			"r2/0<128u w2/64k p w1/0<128",
		}, []string{
			"r2/0<128 p w1/0<128", "r2/0<128 w2/64<128f", "r2/0<128 p r1/0<128", "w2/0<128 w1/0<128", "s2/0+8<128 p s1 | x0 w0/128 | x0", "s2/0+8<128 | r0/128 | x0",
			"w2/0<128i r1/0<128", "r2/0<128u w2/64 p w1/0<128", "r2/0<128 | w0/136",
		}},
		{"parts of memory", []string{
			"w2/0+16 | w2/15+16", "w2/0+64 | r2/32+1", "a2/8 | w2/15+1", "w2/64 | w2/64m", "w2/64 | w2/64o", "w2/64m | r2/64o", "w2/64 | w2/64v", "w2/64 | r2/71v", "w2/64 | w2/64b",
		}, []string{
			"w2/0+16 | w2/16+16", "a2/8 | w2/0+8", "w2/64 | w2/72m", "w2/64 | w2/56o", "w2/64 | w2/72v", "w2/64 | w2/72b",
		}},
		{"atomics that order", []string{
			"l2/64 w2/0 u2/64k | l2/64 w2/0 u2/64k", "l2/64 w2/0 p u2/64 | l2/72 w2/0 p u2/72", "l2/64 w2/0 p u2/64 | w2/0", "w2/0 a2/64k | n2/64 w2/0",
			"r2/0 a2/64 | n2/64 w2/0", "a2/64 w2/0 | n2/64 w2/0",
		}, []string{
			"l2/64 w2/0 p u2/64 | l2/64 w2/0 p u2/64", "l2/64 w2/0 u2/64 | l2/64 w2/0 u2/64", "w2/0 a2/64 | n2/64 w2/0", "w2/0 p a2/64k | n2/64 r2/0", "r2/0 a2/64f | n2/64 w2/0",
			"a2/64 p a2/64 | d2/64 p d2/64",
		}},
		{"messages", []string{
			"w2/0 | | s1/0+8<0", "w2/0 | s2 | x1 s0/0+8<0", "s1 w2/0 | x0 w2/0", "w2/0 p s1 x1 w2/0 | x0 w2/0 s0", "w2/0u w2/64k p s1 | x0 w2/0", "w2/0 p s1 | w2/0 x0",
		}, []string{
			"w2/0 p s1 | x0 s2 | x1 s0/0+8<0", "w2/0 s2 | | x0 s1/0+8<0", "w2/0 p s1 x1 w2/0 | x0 w2/0 p s0", "w2/0u w2/64 p s1 | x0 w2/0", "w2/0 w2/64 P s1 | x0 r2/64 r2/0",
		}},
		{"receives", []string{
			"s2 | w2/49152", "w2/50176 | s2", "s2 | r2/49152", "s2 | a2/49152", "s2+64 | w2/49208+16", "s2 s1 | x0 w2/49152", "s2 s2 | w2/49216", "s2 | | s1+8<49152",
		}, []string{
			"s2 p s1 | x0 w2/49152", "s2 | x2 w2/49152 | x0 s1", "s2 | w2/49160", "s2 w2/49152", "w2/50176 p s1 | x0 s2", "s2 | | x0 s1+8<49152", "s2+8 | w2/49216",
		}},
		{"RDMA CM", []string{
			"w2/0 c1 | h w2/0", "c1 w2/0 | h w2/0", "c1 w2/0 q | h g w2/0", "w2/0 p c1 | w2/0 h", "w2/0 c1 q | h g w2/0", "c1 w2/0 p | h w2/0 q",
		}, []string{
			"w2/0 p c1 | h w2/0", "c1 w2/0 | w2/0 p h", "c1 w2/0 p q | h g w2/0", "c1 g w2/0 | h w2/0 p q", "w2/0 p c1 | h s2 | x1 s0/0+8<0",
		}},
		{"what no device sees", []string{
			"w2/0 S1 | X0 w2/0", "w2/0 | | t/0", "r2/0<128 e/128", "w2/0 [ w2/0k ]",
		}, []string{
			"w2/0 p S1 | X0 w2/0", "w2/0 p w1/64 | y/64 w2/0", "w2/0 p [ w2/0k ]", "w2/0 S1 p | X0 w2/8",
		}},
	} {
		for _, s := range c.race {
			add(c.group, s, true)
		}
		for _, s := range c.not {
			add(c.group, s, false)
		}
	}
	return list
}

// raceMistakes are the cases in which the sanitizer is wrong, with the reason.
var raceMistakes = map[string]string{
	"w2/0 |  | t/0":          "the processor's store",
	"r2/0<128 e/128 |  | ":   "the processor's load",
	"w2/0 p S1 | X0 w2/0 | ": "a socket orders",
}

// raceFirst are the cases that every run has.
var raceFirst = []string{"w2/0 | w2/0 | ", "w2/0 p s1 | x0 w2/0 | ", "l2/64 w2/0 p u2/64 | l2/64 w2/0 p u2/64 | "}

// TestRaceCases: the sanitizer finds races, and none in programs without one. testdata/races.md has
// the result of all cases (GORXE_E2E=full).
func TestRaceCases(t *testing.T) {
	need(t, "gcc")
	notNative(t, "a sanitizer")
	bin := gcc(t, "races", "-g", "-O1", "-Wall", "testdata/races.c", "-libverbs", "-lpthread", "-lrdmacm")
	d := oneDaemon(t)
	cases := raceCases()
	found := make([]bool, len(cases))
	t.Run("cases", func(t *testing.T) {
		for i := range cases {
			c := &cases[i]
			rank := complete
			if slices.Contains(raceFirst, c.String()) {
				rank = standard
			}
			if !selection.takes(rank) {
				continue
			}
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				out, report, code := sanitized(t, d, nil, append([]string{bin}, c.scripts[:]...)...)
				found[i] = slices.ContainsFunc(report.Findings, func(f sanitize.Finding) bool { return racing[f.Check] })
				if _, wrong := raceMistakes[c.String()]; found[i] != (c.race != wrong) || code != 0 && report.Count(sanitize.Error) == 0 {
					t.Errorf("found %v, a race: %v, exit code %d:\n%s", found[i], c.race, code, out)
				}
			})
		}
	})
	if selection.takes(complete) && !t.Failed() {
		generated(t, "testdata/races.md", "races", raceTable(cases, found))
	}
}

// racing are the checks that find a conflict.
var racing = map[string]bool{"race-write": true, "race-read": true, "race-atomic": true, "read-early": true, "overlapping-reads": true}

// raceTable counts the cases of each group, and lists those in which the sanitizer is wrong.
func raceTable(cases []raceCase, found []bool) string {
	var groups, wrong []string
	counts := make(map[string]*[4]int) // races, found; others, reported
	for i := range cases {
		c := &cases[i]
		for _, group := range []string{c.group, "all"} {
			if counts[group] == nil {
				groups, counts[group] = append(groups, group), new([4]int)
			}
			n := counts[group]
			kind := 0
			if !c.race {
				kind = 2
			}
			if n[kind]++; found[i] {
				n[kind+1]++
			}
		}
		if found[i] != c.race {
			says := "reports"
			if c.race {
				says = "misses"
			}
			wrong = append(wrong, fmt.Sprintf("It %s `%s`: %s.\n", says, strings.TrimRight(c.String(), " |"), raceMistakes[c.String()]))
		}
	}
	groups = append(slices.DeleteFunc(groups, func(g string) bool { return g == "all" }), "all")
	var b strings.Builder
	b.WriteString("| cases | races | found | without a race | reported |\n|---|---|---|---|---|\n")
	for _, group := range groups {
		n := counts[group]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", group, n[0], n[1], n[2], n[3])
	}
	n := counts["all"]
	fmt.Fprintf(&b, "\nPrecision %.1f %%, recall %.1f %%.\n\n", percent(n[1], n[1]+n[3]), percent(n[1], n[0]))
	for _, line := range wrong {
		b.WriteString("- " + line)
	}
	return b.String()
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
