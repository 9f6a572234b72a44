package proto

import (
	"bytes"
	"errors"
	"testing"
)

// TestOutcome: what a private daemon says of its start arrives, with its lines.
func TestOutcome(t *testing.T) {
	two := errors.New("taken.\nTake another")
	for _, want := range []error{nil, ErrDaemonRuns, two} {
		var pipe bytes.Buffer
		say(&pipe, want)
		got := ReadOutcome(&pipe)
		if want == two && (got == nil || got.Error() != two.Error()) || want != two && !errors.Is(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if ReadOutcome(new(bytes.Buffer)) == nil {
		t.Error("a daemon that says nothing is ready")
	}
}
