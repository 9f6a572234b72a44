// Package transcript runs the tools that look at RDMA devices, for tests of gorxe and of the
// kernel. It turns their output into a form that does not depend on the machine.
package transcript

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Session is the shell script that runs the commands. Its arguments are the directory of a
// Debian release or nothing, the address of the device, and the commands.
//
//go:embed session.sh
var Session string

// A Part is a package of Debian, and commands of its programs.
type Part struct {
	Package  string
	Commands []string
}

// Parts are the commands of a session, in their order. Some set counters.
var Parts = []Part{{"iproute2", rdma()}, {"infiniband-diags", diags}}

// Commands are all commands, one a line.
func Commands() string {
	var all []string
	for _, p := range Parts {
		all = append(all, p.Commands...)
	}
	return strings.Join(all, "\n")
}

// rdma are commands of iproute2's rdma.
func rdma() []string {
	var list []string
	forms := func(command string) {
		for _, form := range []string{"", "-d ", "-j "} {
			list = append(list, "rdma "+form+command)
		}
	}
	for _, command := range []string{"link show", "dev show", "system show", "resource show"} {
		forms(command)
	}
	for _, kind := range []string{"qp", "cq", "mr", "pd", "cm_id", "ctx", "srq"} {
		forms("resource show " + kind)
	}
	forms("statistic show link rxe0/1")
	return append(list,
		"rdma link show rxe0/1",
		"rdma link show rxe9/1",
		"rdma dev show rxe0",
		"rdma resource show qp link rxe0/1",
		"rdma resource show qp link rxe0/1 lqpn $qpn",
		"rdma resource show qp link rxe0/1 lqpn 1-3",
		"rdma resource show qp pid $pingpong state INIT",
		"rdma resource show qp type UC",
		"rdma resource show pd dev rxe0 pdn $pdn",
		"rdma resource show cq pid 1",
		"rdma resource show cm_id src-port 7171",
		"rdma resource show cm_id state CONNECT",
		"rdma statistic show",
		"rdma statistic mode",
		"rdma statistic qp show",
		"timeout 60 rdma monitor",
		"rdma link add rxe9 type rxe netdev none",
		"rdma dev set rxe9 name rxe8",
	)
}

// diags are commands of infiniband-diags.
var diags = []string{
	"ibstat", "ibstat -l", "ibstat -p", "ibstatus rxe0:1", "ibaddr",
	"smpquery -D nodeinfo 0", "smpquery -D nodedesc 0", "smpquery -D portinfo 0", "smpquery -D pkeys 0", "smpquery -D guidinfo 0",
	"smpquery -D switchinfo 0", "smpquery -D nodeinfo 0,1", "ibportstate -D 0 1",
	"perfquery", "perfquery -x", "perfquery -R", "perfquery 1",
	"iblinkinfo", "ibnetdiscover",
	"timeout 1 ibping -S", "ibping -c 1 1", "timeout 1 ibsysstat -S", "ibsysstat 1", "sminfo", "saquery",
}

// An Entry is a command with what it wrote.
type Entry struct {
	Command string
	Lines   []string
	Status  int
}

// Parse reads the output of a session. The lines are in their stable form.
func Parse(out string) ([]Entry, error) {
	var list []Entry
	open := false
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "$ "):
			if open {
				return nil, fmt.Errorf("%s has no end", list[len(list)-1].Command)
			}
			open = true
			list = append(list, Entry{Command: line[2:]})
		case !open:
			return nil, fmt.Errorf("before the first command: %s", line)
		case strings.HasPrefix(line, "= "):
			e := &list[len(list)-1]
			var err error
			if e.Status, err = strconv.Atoi(line[2:]); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Command, err)
			}
			e.Lines, open = stable(e.Command, e.Lines), false
		default:
			e := &list[len(list)-1]
			e.Lines = append(e.Lines, line)
		}
	}
	if open || len(list) == 0 {
		return nil, fmt.Errorf("the session did not end:\n%s", out)
	}
	return list, nil
}

// stable replaces what depends on the machine. A list in JSON has one object a line.
func stable(command string, lines []string) []string {
	text := strings.Join(lines, "\n")
	var objects []json.RawMessage
	if json.Unmarshal([]byte(text), &objects) == nil {
		lines = []string{"["}
		for _, o := range objects {
			var line bytes.Buffer
			if json.Compact(&line, o) == nil {
				lines = append(lines, "  "+line.String())
			}
		}
		text = strings.Join(append(lines, "]"), "\n")
	}
	for _, r := range rules {
		if r.command == nil || r.command.MatchString(command) {
			text = r.what.ReplaceAllString(text, r.with)
		}
	}
	if text == "" {
		return nil
	}
	lines = strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return lines
}

// numbered are the attributes of a resource that number it, or something of it.
const numbered = `pid|lqpn|rqpn|sq-psn|rq-psn|pdn|cqn|mrn|srqn|ctxn|cm-idn|netdev_index`

// rules are what depends on the machine, in all commands or in some.
var rules = []struct {
	command, what *regexp.Regexp
	with          string
}{
	{nil, regexp.MustCompile(`\bfe80:[0-9a-f:]*`), "LINK-LOCAL"},
	{nil, regexp.MustCompile(`\b10\.\d+\.\d+\.\d+\b`), "ADDRESS"},
	{nil, regexp.MustCompile(`\b0x0000ffff0a[0-9a-f]{6}`), "0xADDRESS"},
	{nil, regexp.MustCompile(`\b[0-9a-f]{4}(:[0-9a-f]{4}){3,7}\b`), "GUID"},
	{nil, regexp.MustCompile(`\b(0x|[SH]-)?[0-9a-f]{16}\b`), "${1}GUID"},
	{nil, regexp.MustCompile(`\b(` + numbered + `) \d+(-\d+)?(,\d+(-\d+)?)*`), "$1 N"},
	{nil, regexp.MustCompile(`"(` + numbered + `)":(\[[^\]]*\]|\d+)`), `"$1":N`},
	{nil, regexp.MustCompile(`\b([rl]key) (0x)?[0-9a-f]+`), "$1 N"},
	{nil, regexp.MustCompile(`"([rl]key)":("[0-9a-fx]+"|\d+)`), `"$1":N`},
	{regexp.MustCompile(`^rdma (-d )?statistic`), regexp.MustCompile(`\b([a-z_]+) \d+`), "$1 N"},
	{regexp.MustCompile(`^rdma -j statistic`), regexp.MustCompile(`"([a-z_]+_[a-z_]+)":\d+`), `"$1":N`},
	{nil, regexp.MustCompile(`(Port(Xmit|Rcv|Unicast|Multicast)\w*:\.+)\d+`), "${1}N"},
	{regexp.MustCompile(`guidinfo`), regexp.MustCompile(`(\n +\d+: 0xGUID 0xGUID)+`), "\n  ..."},
	{regexp.MustCompile(`^ibping`), regexp.MustCompile(`time \d+ ms`), "time N ms"},
	{nil, regexp.MustCompile(`\[\d+\]`), "[PID]"},
	{nil, regexp.MustCompile(`(# Topology file: generated on ).*`), "${1}DATE"},
}
