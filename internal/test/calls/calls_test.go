package calls

import "testing"

// Reaches finds a name in a function, in its helpers, and not beyond.
func TestReaches(t *testing.T) {
	p := Parse(t)
	for name, want := range map[string]bool{"Parse": true, "Package.Has": true, "TestReaches": true, "Has": false, "Package.None": false} {
		if p.Has(name) != want {
			t.Errorf("Has(%q) is %v", name, !want)
		}
	}
	p = &Package{tests: map[string][]string{
		"TestDirect": {"Post"},
		"TestHelper": {"connect"},
		"TestOther":  {"TestDirect"},
		"connect":    {"exchange"},
		"exchange":   {"connect", "Poll"},
	}}
	for _, tt := range []struct {
		from, name string
		want       bool
	}{
		{"TestDirect", "QP.Post", true},
		{"TestDirect", "CQ.Poll", false},
		{"TestHelper", "CQ.Poll", true},
		{"TestHelper", "QP.Post", false},
		{"TestOther", "QP.Post", false},
		{"TestNone", "QP.Post", false},
	} {
		if got := p.Reaches(tt.from, tt.name); got != tt.want {
			t.Errorf("%s reaches %s: %v", tt.from, tt.name, got)
		}
	}
}
