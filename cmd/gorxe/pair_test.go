package main

import (
	"slices"
	"strings"
	"testing"
)

// TestPairCapture: two daemons never write one capture. On hosts of their own, the server's does.
func TestPairCapture(t *testing.T) {
	c := pairCmd{Hosts: true, Programs: []string{"a", "--", "b"}}
	c.PCAP = "x.pcapng"
	flags, _, err := c.place()
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[string]bool{"server": true, "client": false} {
		all := slices.Concat(flags, c.endFlags(end))
		captures := slices.ContainsFunc(all, func(f string) bool { return strings.HasPrefix(f, "--pcap") })
		if captures != want {
			t.Errorf("%s: %q", end, all)
		}
	}
}
