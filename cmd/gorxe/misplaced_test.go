package main

import (
	"strings"
	"testing"
)

// TestLate: a flag of gorxe among the arguments of a well-known program is told, and nothing else.
func TestLate(t *testing.T) {
	for words, want := range map[string]string{
		"ib_write_bw --pcap x.pcapng": "ib_write_bw got --pcap as an argument", "ibv_devinfo --device=rxe0=lo": "ibv_devinfo got --device as",
		"ib_write_bw -d rxe0": "", "ib_write_bw --report_gbits": "", "./my-test --pcap x": "", "": "",
	} {
		if got := late(strings.Fields(words)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	// ownFlag knows all flags but those that programs may have.
	others := map[string]bool{"help": true, "timeout": true, "no-labels": true, "labels": true}
	for _, command := range newGrammar(nil, streams{}).Model.Children {
		if command.Name != "run" && command.Name != "pair" {
			continue
		}
		for _, f := range command.Flags {
			if f.Hidden {
				continue // nobody types it
			}
			if ownFlag.MatchString("--"+f.Name) == others[f.Name] {
				t.Errorf("--%s of gorxe %s", f.Name, command.Name)
			}
		}
	}
}

// TestAbsent: a program that names a device that it does not have is told which it has.
func TestAbsent(t *testing.T) {
	for words, want := range map[string]string{
		"ibv_devinfo -d rxe1": "the devices here are rxe0, rxe7; for rxe1: gorxe run --device rxe1=INTERFACE", "ib_write_bw -drxe2": "for rxe2:",
		"ib_write_bw --ib-dev=rxe3": "for rxe3:", "ibv_devinfo -d rxe7": "", "ibv_devinfo": "", "x rxe": "", "x mlx5_": "",
		"ibv_devinfo -d mlx5_0": "for mlx5_0: gorxe run --device mlx5_0=INTERFACE, or --like connectx6 --devices N",
		"ibv_devinfo -d mlx5_1": "for mlx5_1: gorxe run --device mlx5_1=INTERFACE, or --like connectx6 --devices N", "x /tmp/rxe1": "",
		"/usr/bin/ib_write_bw -d rocep1s0f0 -x 1": "the devices here are rxe0, rxe7, and not rocep1s0f0",
		"ib_send_bw --ib-dev=mlx5_1":              "for mlx5_1: gorxe run --device mlx5_1=INTERFACE", "ib_send_bw --ib-dev roce1": "and not roce1", "my-test -d roce0": "", "ib_write_bw -D 5": "",
	} {
		got := absent(strings.Fields(words), []string{"rxe0", "rxe7"})
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
	if got := absent([]string{"x", "rxe1"}, nil); got != "" {
		t.Errorf("devices that are not known: %q", got)
	}
}
