package main

import (
	"maps"
	"strings"
	"testing"
)

// oneDetail says of each command why it has neither -q nor -v.
var oneDetail = map[string]string{
	"run": "the output is the program's", "pair": "the output is the programs'", "lab": "the output is the programs'", "rsh": "the output is the command's",
	"daemon": "it has --log-level", "metrics": "it serves", "nri": "it serves", "extcap": "Wireshark calls it",
	"fault add": "it prints one line for a rule", "fault list": "it prints one line for a rule", "fault remove": "it prints one line for a rule", "fault clear": "it prints one line for a rule",
	"status": "--wide, --congestion and --errors choose", "top": "it has one table", "watch": "it prints one line for what happens", "explain": "a text has one length",
	"demo": "it has one report", "devices": "it has one table", "doctor": "scripts use its exit code", "pcap export": "it writes a file",
	"version": "it prints one line", "help": "a text has one length", "manual": "it writes files",
	"completion": "it prints a script",
}

// TestDetail: a command takes -q and -v, or neither for a reason, and no command uses one of the
// letters for something else.
func TestDetail(t *testing.T) {
	both, unused := 0, maps.Clone(oneDetail)
	for _, command := range leaves(parsedGrammar(t).Node) {
		name, flags := strings.Join(path(command), " "), ""
		for _, f := range command.Flags {
			switch {
			case f.Short == 'q' && f.Name == "quiet", f.Short == 'v' && f.Name == "verbose":
				flags += string(f.Short)
			case f.Short == 'q' || f.Short == 'v' || f.Name == "quiet" || f.Name == "verbose":
				t.Errorf("%s: -%c is --%s", name, f.Short, f.Name)
			}
		}
		delete(unused, name)
		switch {
		case flags == "qv":
			both++
		case flags != "":
			t.Errorf("%s has -%s alone", name, flags)
		case oneDetail[name] == "":
			t.Errorf("%s has neither -q nor -v, and no reason", name)
		}
	}
	for name := range unused {
		t.Errorf("there is no command %s", name)
	}
	if both < 3 {
		t.Errorf("%d commands have both", both)
	}
}

// TestDetailOfCaptures: -q prints less than without a flag, -v more, and both together are an
// error.
func TestDetailOfCaptures(t *testing.T) {
	const file = "../../testdata/pcaps/netem_corrupt2.pcap"
	for _, command := range []string{"check", "show", "replay"} {
		lines := func(flag string) int {
			args := []string{"pcap", command, file}
			if flag != "" {
				args = append(args, flag)
			}
			code, stdout, stderr := gorxe(t, args...)
			if code == exitUsage || stderr != "" {
				t.Errorf("%s %s: exit code %d, %s", command, flag, code, stderr)
			}
			return strings.Count(stdout, "\n")
		}
		if q, plain, v := lines("-q"), lines(""), lines("-v"); q == 0 || q >= plain || v <= plain {
			t.Errorf("%s: %d lines with -q, %d without, %d with -v", command, q, plain, v)
		}
		if code, _, _ := gorxe(t, "pcap", command, file, "-q", "-v"); code != exitUsage {
			t.Errorf("%s -q -v: exit code %d", command, code)
		}
	}
}

// TestCheckColors: gorxe pcap check has colors where they are wanted, and says the same without.
func TestCheckColors(t *testing.T) {
	const file = "../../testdata/pcaps/netem_corrupt2.pcap"
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "")
	_, plain, _ := gorxe(t, "pcap", "check", file)
	t.Setenv("CLICOLOR_FORCE", "1")
	_, colored, _ := gorxe(t, "pcap", "check", file)
	t.Setenv("NO_COLOR", "1")
	_, none, _ := gorxe(t, "pcap", "check", file)
	if strings.Contains(plain, "\x1b") || none != plain {
		t.Error("there are colors that nobody wants")
	}
	if !strings.Contains(colored, "\x1b[31mviolation\x1b[0m: ") || !strings.Contains(colored, "\x1b[31m26 violations\x1b[0m") {
		t.Errorf("%.600s", colored)
	}
	if text := escapes.ReplaceAllString(colored, ""); text != plain {
		t.Errorf("without its colors it is another text:\n%.300s", text)
	}
}
