package plural

import "testing"

// TestOf: one thing is not "1 things".
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "packet", "0 packets"}, {1, "packet", "1 packet"}, {2, "NAK", "2 NAKs"}, {1, "retry", "1 retry"}, {3, "retry", "3 retries"},
		{-1, "second", "-1 seconds"},
	} {
		if got := Of(tt.n, tt.noun); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
