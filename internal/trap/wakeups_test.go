package trap

import "testing"

// TestWakeUps walks the table of wakeUps.
func TestWakeUps(t *testing.T) {
	var w wakeUps
	for i, step := range []struct{ waits, handOver bool }{
		{false, true},  // it slept, and sleeps
		{true, false},  // it slept, and takes a call
		{true, false},  // it did not sleep, and takes a call
		{false, false}, // it did not sleep, and sleeps
		{false, true},
	} {
		if got := w.handOver(step.waits); got != step.handOver {
			t.Errorf("answer %d hands over: %v, want %v", i, got, step.handOver)
		}
	}
}
