package conformance

import "testing"

func TestOf(t *testing.T) {
	var zero Summary
	for _, name := range []string{"icrc", "no-such-rule"} {
		if n := zero.Of(name); n != (RuleCount{}) {
			t.Errorf("%s: %+v in a zero Summary", name, n)
		}
	}
	r, err := CheckFile(captures+"broken/pad.pcap", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Of("pad"); n.Violations != 1 || n.FirstPacket == 0 || n.Total() != 1 {
		t.Errorf("pad: %+v", n)
	}
	if n := r.Of("no-such-rule"); n != (RuleCount{}) {
		t.Errorf("no-such-rule: %+v", n)
	}
}
