package quota

import "testing"

// TestLooksShared: those who find out that something is spent while a look is under way share the
// next one. Nobody relies on a look that had begun before.
func TestLooksShared(t *testing.T) {
	total := NewTotal(Cost{Files: 1})
	b := total.Share(Cost{})
	looks := 0
	defer b.BeforeRefusal(func() { looks++ })()
	h := &total.hooks
	first := h.runs.Load()
	for i := range 8 {
		if owners := h.run(first); len(owners) != 1 || looks != 1 {
			t.Errorf("call %d: %d looks for %d owners", i, looks, len(owners))
		}
	}
	if h.run(h.runs.Load()); looks != 2 {
		t.Errorf("%d looks, and a later caller got none of its own", looks)
	}
}
