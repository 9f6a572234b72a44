package procfs

import "testing"

// TestParseStanding: what /proc/PID/syscall says of a thread.
func TestParseStanding(t *testing.T) {
	for text, want := range map[string]Standing{
		"1 0x3 0x7ffc1000 0x20 0x0 0x0 0x0 0x7ffc0ff8 0x7f0000001234\n": {InCall: true, PC: 0x7f0000001234, SP: 0x7ffc0ff8},
		"1 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x401000\n":                   {InCall: true, PC: 0x401000, SP: 0x7ffd},
		"-1 0x7ffc0ff8 0x7f0000001234\n":                                {PC: 0x7f0000001234, SP: 0x7ffc0ff8},
		"-1 0x7ffd00 0x401000\n":                                        {PC: 0x401000, SP: 0x7ffd00},
		"running\n":                                                     {},
		"1 0x3 0x7ffc1000 0x20 0x0 0x0 0x0 sp 0x7f0000001234\n":         {},
		"1 0x7ffd00 0x401000\n":                                         {},
		"-1 0x7ffd00\n":                                                 {},
		"-1 x 0x401000\n":                                               {},
		"-1 0x7ffd00 x\n":                                               {},
		"":                                                              {},
	} {
		got, ok := ParseStanding(text)
		if ok != (want != Standing{}) || got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
}
