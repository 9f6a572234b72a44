package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/internal/sys/terminal"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type pcapCheckCmd struct {
	Files  []string   `arg:"" optional:"" name:"file" predictor:"file" help:"Capture files; - is standard input."`
	Rules  ruleChoice `help:"Apply only these rules: --rules=RULE,... Without =, list the rules and check nothing."`
	Ignore []string   `placeholder:"RULE" predictor:"rule" help:"Do not apply these rules."`
	Strict bool       `help:"Fail on warnings too."`
	Empty  bool       `name:"allow-empty" help:"Accept files without RDMA packets."`
	Max    int        `default:"20" help:"Print at most this many findings of each rule, but count all. 0 prints all (default: ${default})."`
	Quiet  bool       `short:"q" xor:"much" help:"Print one line for each file, and no findings."`
	Verb   bool       `name:"verbose" short:"v" xor:"much" help:"Print all findings and every column, as --max 0 --wide."`
	Wide   bool       `help:"Print every column of the tables, also those that are 0 everywhere, in one line."`
	JSON   bool       `name:"json" xor:"form" help:"Print JSON."`
	JUnit  string     `name:"junit" placeholder:"FILE" predictor:"file" help:"Also write a JUnit XML report, with a test case for each rule."`
}

// Help is the part of `gorxe pcap check --help` above the flags.
func (pcapCheckCmd) Help() string {
	return `Compares every packet with the InfiniBand specification: the packet by itself, and as part of its queue pair's traffic. A finding names the packet, the flow, the rule and its clause, what was expected and what was seen.

A violation is a packet that no correct device sends. A warning is against a recommendation, or is a violation only if the capture lacks no packet. A note is worth knowing. A capture may begin in the middle, hold one direction only, lack packets or cut them: only what it shows is judged.

The last line says first what went wrong without breaking a rule: packets that were sent again, timeouts, NAKs, and flows that ended without an acknowledgement.

The exit code is 0 if there is no violation. It is 1 if there is one, if a file cannot be read, or if it has no RDMA packet (unless --allow-empty is given). A file that ends within a packet is judged up to there, with a warning; --strict fails it. It is 2 if the command line is wrong.

Examples:
  gorxe pcap check run.pcapng
  gorxe pcap check --ignore source-port,reserved-bits --max 0 switch.pcap.gz
  gorxe pcap check --junit report.xml --json captures/*.pcap > report.json
  gorxe pcap check --rules=icrc,msn run.pcapng
  tcpdump -i eth0 -w - udp port 4791 | gorxe pcap check -
  gorxe pcap check --rules`
}

// ruleChoice is the value of --rules. Without names the flag asks for a list of rules.
type ruleChoice struct {
	list  bool
	names []string
}

// IsBool tells kong that the flag needs no value.
func (*ruleChoice) IsBool() bool { return true }

// Decode implements kong.MapperValue. The value follows a =, because the word after a
// space is a file.
func (r *ruleChoice) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		r.list = true
		return nil
	}
	r.names = append(r.names, strings.Split(ctx.Scan.Pop().String(), ",")...)
	return nil
}

// known returns an error if no rule has one of the names.
func known(flag string, names []string) error {
	for _, name := range names {
		if conformance.RuleByName(name) == nil {
			return usageError{fmt.Errorf("%s: no rule is named %q; see gorxe pcap check --rules", flag, name)}
		}
	}
	return nil
}

// Run checks captures.
func (c pcapCheckCmd) Run(ctx context.Context, std streams) error {
	switch {
	case c.Rules.list && len(c.Files) > 0:
		return usageError{errors.New("--rules without names lists the rules and checks no file; --rules=RULE,... applies only these")}
	case c.Rules.list:
		return report.WriteRules(std.out, c.JSON, c.form(std))
	case len(c.Files) == 0:
		return usageError{errors.New("no capture file given")}
	}
	if err := cmp.Or(known("--rules", c.Rules.names), known("--ignore", c.Ignore)); err != nil {
		return err
	}
	if len(c.Rules.names) > 0 {
		for _, rule := range conformance.Rules() {
			if !slices.Contains(c.Rules.names, rule.Name) {
				c.Ignore = append(c.Ignore, rule.Name)
			}
		}
	}
	if c.Verb {
		c.Max, c.Wide = 0, true
	}
	if c.Max < 0 {
		return usageError{errors.New("--max must not be negative")}
	}
	var captures []*report.Capture
	failed := false
	for i, name := range c.Files {
		r := c.check(ctx, std, name, i > 0)
		captures = append(captures, r)
		failed = failed || r.Failed(c.Strict)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if c.JSON {
		if err := report.WriteJSON(std.out, report.JSON(captures)); err != nil {
			return err
		}
	}
	if c.JUnit != "" {
		err := writeTo(c.JUnit, func(w io.Writer) error { return report.WriteJUnit(w, captures, c.Ignore, c.Strict) })
		if err != nil {
			return err
		}
	}
	if failed {
		return errSaid
	}
	return nil
}

// check judges one file, and prints findings as they are made. If more is set, those of
// another file came before.
func (c *pcapCheckCmd) check(ctx context.Context, std streams, name string, more bool) *report.Capture {
	r := &report.Capture{File: name}
	var progress *read.Progress
	if terminal.Is(std.err) {
		progress = read.NewProgress(std.err)
	}
	var listed []conformance.Finding // for JSON and JUnit
	printer := report.NewFindings(std.out, c.Max)
	printer.Paint = severityPaint(std.out)
	opts := conformance.Options{Ignore: c.Ignore, OnFinding: func(x *conformance.Finding) {
		if !printer.Count(x) {
			return
		}
		if !c.JSON && !c.Quiet {
			progress.Clear()
			if more {
				fmt.Fprintln(std.out)
				more = false
			}
			printer.Print(printable(name), x)
		}
		if c.JSON || c.JUnit != "" {
			listed = append(listed, *x)
		}
	}}
	started := time.Now()
	checked, err := checkFile(ctx, name, progress, opts)
	r.Err, r.Elapsed = err, time.Since(started)
	if checked != nil {
		r.Report = *checked
	}
	r.Findings = listed
	progress.Clear()
	if r.Err == nil && r.Empty() && !c.Empty {
		r.Err = report.ErrNothing
	}
	// Of a file that could not be judged there is nothing to say but why.
	if judged := checked != nil && (!r.Empty() || c.Empty); judged && !c.JSON {
		if !c.Quiet {
			printer.Rest()
			r.WriteSummary(std.out, c.form(std))
		}
		r.WriteVerdict(std.out, printable(name), severityPaint(std.out))
	}
	if r.Err != nil {
		complain(std, of(name, r.Err))
	}
	if r.Cut {
		warnCut(std, name, r.CutAt)
	}
	return r
}

// severityPaint gives severities their colors; nil: there are none.
func severityPaint(w io.Writer) report.Paint {
	color := paintOf(w)
	if !color {
		return nil
	}
	return func(s conformance.Severity, text string) string {
		switch s {
		case conformance.Violation:
			return color.as(red, text)
		case conformance.Warning:
			return color.as(yellow, text)
		default:
			return color.as(dim, text)
		}
	}
}

func (c *pcapCheckCmd) form(std streams) report.Form {
	columns, _ := terminal.Size(std.out)
	return report.Form{Width: columns, Wide: c.Wide}
}

func checkFile(ctx context.Context, name string, progress *read.Progress, opts conformance.Options) (*conformance.Report, error) {
	file, err := read.Open(ctx, name, progress)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Check(opts, nil)
}
