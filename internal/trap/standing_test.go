package trap

import "testing"

// TestInCall: what /proc/PID/syscall says of a thread.
func TestInCall(t *testing.T) {
	for _, c := range []struct {
		text   string
		pc, sp uint64
		ok     bool
	}{
		{"1 0x3 0x7ffc1000 0x20 0x0 0x0 0x0 0x7ffc0ff8 0x7f0000001234\n", 0x7f0000001234, 0x7ffc0ff8, true},
		{"running\n", 0, 0, false},
		{"-1 0x7ffc0ff8 0x7f0000001234\n", 0, 0, false},
		{"1 0x3 0x7ffc1000 0x20 0x0 0x0 0x0 sp 0x7f0000001234\n", 0, 0, false},
		{"", 0, 0, false},
	} {
		if pc, sp, ok := inCall(c.text); pc != c.pc || sp != c.sp || ok != c.ok {
			t.Errorf("%q: pc %#x, sp %#x, %t", c.text, pc, sp, ok)
		}
	}
}
