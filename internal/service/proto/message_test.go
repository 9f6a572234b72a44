package proto

import (
	"errors"
	"strings"
	"testing"
)

// TestReplyError: a client acts on a reply's code. The daemon's text is for the user.
func TestReplyError(t *testing.T) {
	for _, tt := range []struct {
		code errCode
		text string
		is   error
		says string
	}{
		{CodeEnding, "x", ErrEnding, "ending"},
		{CodeElsewhere, "x", ErrElsewhere, "namespace"},
		{CodeLimit, "so many", ErrLimit, "so many"},
		{CodeCapture, "--pcap: no", ErrCapture, "the daemon refused: --pcap: no"},
		{"", "--pcap: no", nil, "the daemon refused: --pcap: no"},
		{"of a newer daemon", "no", nil, "the daemon refused: no"},
	} {
		err := (&Reply{Version: ProtocolVersion, Code: tt.code, Error: tt.text}).err()
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v, want %q", tt.code, err, tt.says)
		}
		for _, kind := range []error{ErrEnding, ErrElsewhere, ErrLimit, ErrCapture, ErrVersion} {
			if errors.Is(err, kind) != (kind == tt.is) {
				t.Errorf("%q: %v is %v", tt.code, err, kind)
			}
		}
	}
	if err := (&Reply{Version: ProtocolVersion}).err(); err != nil {
		t.Error(err)
	}
}
