package fault

// Rules that delay packets keep them. The payer of a rule's set pays for each one, as long as it is
// kept.

// Take reports whether the rule's payer has room for n bytes. Give undoes it.
func (h *Hit) Take(n int64) bool { return h.of.take(n) }

// Give gives back what Take took.
func (h *Hit) Give(n int64) { h.of.give(n) }

// NoRoom counts a packet that the rule lost, because there was no room to keep it.
func (h *Hit) NoRoom() { h.of.lost.Add(1) }

// Set returns the rule's set.
func (h *Hit) Set() *Set { return h.of.set }

// Payer returns the payer for what the rule keeps; nil: there is none.
func (h *Hit) Payer() Payer { return h.of.payer }

// Ended reports whether the rule was removed.
func (h *Hit) Ended() bool { return h.of.ended.Load() }

// Label returns the rule's number, with its text.
func (h *Hit) Label() string { return h.of.label() }

func (e *entry) take(n int64) bool { return e.payer == nil || e.payer.TakeBytes(n) }

func (e *entry) give(n int64) {
	if e.payer != nil {
		e.payer.GiveBytes(n)
	}
}
