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

// TestPairWhy: --explain does not go with hosts of their own, so the ends do not advise it.
func TestPairWhy(t *testing.T) {
	for _, hosts := range []bool{true, false} {
		c := pairCmd{Hosts: hosts, Programs: []string{"a", "--", "b"}}
		flags, _, err := c.place()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(flags, "--why=--verdict DIR") != hosts {
			t.Errorf("hosts %v: %q", hosts, flags)
		}
	}
}
