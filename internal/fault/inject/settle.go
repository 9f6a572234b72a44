package inject

import "slices"

// Settle waits until the delayed packets of rules that have ended are on their way, or until limit
// is closed.
func (l *Link) Settle(limit <-chan struct{}) {
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
