package ladder

import (
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// acts are what a fault rule does to a packet that it does not lose, as gorxe's captures say it.
var acts = []string{"delayed", "held back", "doubled", "corrupted", "cut short", "marked"}

// ofFlow names the requests or the answers of a flow.
type ofFlow struct {
	flow    *conformance.Flow
	answers bool
}

// deeds count what fault rules did to packets, by acts; the last count is of what others say.
type deeds map[ofFlow]*[7]uint64

// add counts what the comment of a packet says.
func (d *deeds) add(f *conformance.Flow, answer bool, text string) {
	if *d == nil {
		*d = make(deeds)
	}
	n := (*d)[ofFlow{f, answer}]
	if n == nil {
		n = new([7]uint64)
		(*d)[ofFlow{f, answer}] = n
	}
	for part := range strings.SplitSeq(text, "; ") {
		act, _, _ := strings.Cut(part, " by fault rule ")
		if i := slices.Index(acts, act); i >= 0 {
			n[i]++
		} else {
			n[len(acts)]++
		}
	}
}

// of says what fault rules did: "marked 200 packets"; empty: nothing.
func (d deeds) of(f *conformance.Flow, answer bool) string {
	n, noun := d[ofFlow{f, answer}], "packet"
	if n == nil {
		return ""
	}
	if answer {
		noun = "answer"
	}
	var parts []string
	for i, k := range n {
		if k > 0 {
			parts = append(parts, append(acts, "changed")[i]+" "+plural.Of(k, noun))
		}
	}
	return strings.Join(parts, ", ")
}
