package daemon

import "testing"

// TestWholeName: a program has its whole name, of which the kernel keeps 15 bytes.
func TestWholeName(t *testing.T) {
	for _, c := range []struct{ comm, exe, want string }{
		{"ibv_srq_pingpon", "/usr/bin/ibv_srq_pingpong", "ibv_srq_pingpong"},
		{"ibv_srq_pingpon", "/tmp/ibv_srq_pingpong (deleted)", "ibv_srq_pingpong"},
		{"ib_write_bw", "/usr/bin/ib_write_bw", "ib_write_bw"},
		{"a-thread-s-name", "/usr/bin/python3", "a-thread-s-name"},
		{"sh", "/bin/shell", "sh"},
	} {
		if got := wholeName(c.comm, c.exe); got != c.want {
			t.Errorf("%s of %s is %q, want %q", c.comm, c.exe, got, c.want)
		}
	}
}
