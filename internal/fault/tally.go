package fault

import "sync/atomic"

// Tally counts the hits of the sets that it is given to. It outlives their rules.
type Tally struct {
	n [wheres][whats]atomic.Uint64
}

// Hits says how often one fault was at one place.
type Hits struct {
	Where string `json:"where"`
	What  string `json:"what"`
	Fired uint64 `json:"fired"`
}

// Hits returns every fault that the grammar has, in its order.
func (t *Tally) Hits() (list []Hits) {
	for _, p := range places {
		for _, f := range p.whats {
			list = append(list, Hits{p.name, f.name, t.n[p.where][f.what].Load()})
		}
	}
	return list
}

// CountIn makes a tally count the hits of all rules that are added from now on.
func (s *Set) CountIn(t *Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally = t
}
