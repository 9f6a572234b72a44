package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestVerdictOtherCapture: a user who gave --verdict learns that it captures, if the daemon has
// another capture. Another error whose text names --pcap stays as it is.
func TestVerdictOtherCapture(t *testing.T) {
	f := verdictFlags{Verdict: t.TempDir()}
	const prefix = "--verdict, which captures as --pcap does: "
	for _, tt := range []struct {
		err   error
		wants bool
	}{
		{fmt.Errorf("no: %w", proto.ErrCapture), true},
		{errors.New("--pcap is not a device"), false},
	} {
		got := f.failed(&keeper.ExitError{Code: keeper.ExitFailed, Err: tt.err})
		if strings.HasPrefix(got.Error(), prefix) != tt.wants || !errors.Is(got, tt.err) {
			t.Errorf("%v becomes %v", tt.err, got)
		}
		if exit := (*keeper.ExitError)(nil); !errors.As(got, &exit) || exit.Code != keeper.ExitFailed {
			t.Errorf("%v: another exit code", got)
		}
	}
}
