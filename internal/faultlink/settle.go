package faultlink

import (
	"slices"
	"time"
)

// Settle waits until the delayed packets of rules that have ended are on their way, or until limit.
func (l *Link) Settle(limit <-chan time.Time) {
	l.mu.Lock()
	old := slices.Clone(l.old)
	l.mu.Unlock()
	for _, q := range old {
		select {
		case <-q.gone:
		case <-limit:
			return
		}
	}
}
