package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/rxe"
)

// quirk is something that some adapters do, with which portable programs have to cope.
type quirk struct {
	has, lacks string // the words that give it to a profile and take it away
	of         func(*rxe.Quirks) *bool
}

// quirks: sources are where somebody met them.
var quirks = []quirk{
	// irdma_create_qp and bnxt_re_init_qp_type have RC and UD only.
	{"no-uc", "uc", func(q *rxe.Quirks) *bool { return &q.NoUC }},
	// kvcache-ai/Mooncake#721, of an Intel E810
	{"reset-einval", "reset-again", func(q *rxe.Quirks) *bool { return &q.ResetOnce }},
	// NVIDIA/nccl#2157, of a ConnectX-5 Ex, and #1333, of a ConnectX-7
	{"gids-move", "gids-stay", func(q *rxe.Quirks) *bool { return &q.GIDsMove }},
}

// take sets the quirks that words name.
func (p *Profile) take(words []string) error {
	chosen := make(map[string]string) // by the word for having it
	for _, word := range words {
		i := slices.IndexFunc(quirks, func(q quirk) bool { return word == q.has || word == q.lacks })
		if i < 0 {
			return fmt.Errorf("%q is no quirk: choose one of %s", word, strings.Join(quirkWords(), ", "))
		}
		q := quirks[i]
		switch before := chosen[q.has]; before {
		case "":
		case word:
			return fmt.Errorf("it has %q twice", word)
		default:
			return fmt.Errorf("%q contradicts %q", word, before)
		}
		chosen[q.has] = word
		*q.of(&p.Quirks) = word == q.has
	}
	return nil
}

func quirkWords() (list []string) {
	for _, q := range quirks {
		list = append(list, q.has, q.lacks)
	}
	return list
}

// words lists the quirks that the profile has, and those that it lacks unlike the adapter of its
// name.
func (p *Profile) words() (list []string) {
	i := slices.IndexFunc(profiles, func(row Profile) bool { return row.Name == p.Name })
	for _, q := range quirks {
		switch {
		case *q.of(&p.Quirks):
			list = append(list, q.has)
		case i >= 0 && *q.of(&profiles[i].Quirks):
			list = append(list, q.lacks)
		}
	}
	return list
}
