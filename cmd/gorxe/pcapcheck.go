package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type pcapCheckCmd struct {
	Files  []string   `arg:"" optional:"" name:"file" help:"Capture files; - is standard input."`
	Rules  ruleChoice `help:"Apply only these rules: --rules=RULE,... Without =, list the rules, and check nothing."`
	Ignore []string   `placeholder:"RULE" help:"Do not apply these rules."`
	Strict bool       `help:"Fail on warnings too."`
	Empty  bool       `name:"allow-empty" help:"Pass files in which there is nothing to judge."`
	Max    int        `default:"20" help:"Findings to print of each rule; all are counted. 0 prints all (default: ${default})."`
	Quiet  bool       `short:"q" help:"Print one line for each file, and no findings."`
	JSON   bool       `name:"json" xor:"form" help:"Print JSON."`
	JUnit  string     `name:"junit" placeholder:"FILE" help:"Also write a JUnit XML report, with a test case for each rule."`
}

// Help is the part of `gorxe pcap check --help` above the flags.
func (pcapCheckCmd) Help() string {
	return `Every packet is held to the InfiniBand specification: by itself, and as part of its queue pair's traffic. A finding names the packet, the flow, the rule and its clause, what was expected and what was seen.

A violation is what no correct device sends. A warning is what is against a recommendation, or would be a violation if it were not for the capture, which may lack packets. A note is worth knowing. Captures that begin in the middle, hold one direction, lack packets or are cut are judged only on what they show.

The exit code is 0 if there is no violation, 1 if there is one, or a file cannot be read or has no packet of RDMA (but with --allow-empty), 2 if the command line is wrong.

Examples:
  gorxe pcap check run.pcapng
  gorxe pcap check --ignore source-port,reserved-bits --max 0 switch.pcap.gz
  gorxe pcap check --junit report.xml --json captures/*.pcap > report.json
  gorxe pcap check --rules=icrc,msn run.pcapng
  tcpdump -i eth0 -w - udp port 4791 | gorxe pcap check -
  gorxe pcap check --rules`
}

// ruleChoice is the value of --rules: alone it asks for a list, with names it chooses.
type ruleChoice struct {
	list  bool
	names []string
}

// IsBool tells kong that the flag needs no value.
func (*ruleChoice) IsBool() bool { return true }

// Decode implements kong.MapperValue. Only what follows a = is a value: what follows a
// space is a file.
func (r *ruleChoice) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		r.list = true
		return nil
	}
	r.names = append(r.names, strings.Split(ctx.Scan.Pop().String(), ",")...)
	return nil
}

// known refuses names that no rule has.
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
		return usageError{errors.New("--rules alone lists the rules and checks no file; --rules=RULE,... applies only these")}
	case c.Rules.list:
		return listRules(std, c.JSON)
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
	if c.Max < 0 {
		return usageError{errors.New("--max must not be negative")}
	}
	var reports []*captureReport
	failed := false
	for i, name := range c.Files {
		r := c.check(ctx, std, name, i > 0)
		reports = append(reports, r)
		failed = failed || r.failed(c.Strict)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if c.JSON {
		if err := writeJSON(std, jsonReports(reports)); err != nil {
			return err
		}
	}
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, reports, c.Ignore, c.Strict); err != nil {
			return err
		}
	}
	if failed {
		return errSaid
	}
	return nil
}

// captureReport is the verdict on one file.
type captureReport struct {
	file     string
	err      error // it could not be read to its end, or errNothing
	cut      bool  // it ends within a packet
	drops    uint64
	elapsed  time.Duration
	summary  conformance.Summary
	findings []conformance.Finding // up to --max of each rule
}

// errNothing fails a capture that is not of RDMA: a check that judged nothing, for
// a wrong interface or filter, must not look like one that found nothing.
var errNothing = errors.New("nothing to judge: no packet to UDP port 4791, of RoCEv1 or of InfiniBand, of which the BTH was captured (--allow-empty passes that)")

// empty reports whether no packet could be judged.
func (r *captureReport) empty() bool {
	return len(r.summary.Flows)+r.summary.Forgotten == 0 && r.summary.Violations == 0
}

func (r *captureReport) failed(strict bool) bool {
	return r.err != nil || r.summary.Violations > 0 || strict && r.summary.Warnings > 0
}

// check judges one file, and prints what it finds as it goes.
func (c *pcapCheckCmd) check(ctx context.Context, std streams, name string, more bool) *captureReport {
	r := &captureReport{file: name}
	text := !c.JSON
	out := newFindingPrinter(std.out, c.Max)
	quiet := !text || c.Quiet
	progress := newProgress(std, name)
	checker, err := conformance.New(conformance.Options{Ignore: c.Ignore, OnFinding: func(x *conformance.Finding) {
		if !out.wants(x) {
			return
		}
		if !quiet {
			progress.clear()
			if more {
				fmt.Fprintln(std.out)
				more = false
			}
			out.print(name, x)
		}
		if c.JSON || c.JUnit != "" {
			r.findings = append(r.findings, *x)
		}
	}})
	if err == nil {
		err = r.read(ctx, name, checker, progress)
	}
	r.err = err
	checker.Close()
	progress.clear()
	r.summary = checker.Summary()
	if r.err == nil && r.empty() && !c.Empty {
		r.err = errNothing
	}
	if text {
		if !c.Quiet {
			out.rest()
			if err := writeSummary(std.out, r); r.err == nil {
				r.err = err
			}
		}
		writeVerdict(std.out, r)
	}
	if r.err != nil {
		complain(std, fmt.Errorf("%s: %w", name, r.err))
	}
	return r
}

// read feeds a file to the checker.
func (r *captureReport) read(ctx context.Context, name string, checker *conformance.Checker, progress *progress) error {
	file := os.Stdin
	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			return err
		}
		defer file.Close()
	}
	started := time.Now()
	defer func() { r.elapsed = time.Since(started) }()
	progress.start(file)
	in, err := capture.NewReader(progress)
	if err != nil {
		return err
	}
	var p capture.Packet
	for n := 0; ; n++ {
		if n&0xffff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		err := in.Next(&p)
		r.drops = in.Drops()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, capture.ErrCut):
			r.cut = true
			return nil
		case err != nil:
			return err
		}
		checker.Add(&p)
		progress.packets++
	}
}

// progress counts what is read of a file, and shows it on a terminal if that
// takes long.
type progress struct {
	std     streams
	name    string
	file    *os.File
	size    int64 // 0 if it is not known
	read    int64
	packets int64
	began   time.Time
	next    time.Time
	visible bool
	on      bool
}

const progressEvery = 250 * time.Millisecond

func newProgress(std streams, name string) *progress {
	return &progress{std: std, name: name, on: isTerminal(std.err)}
}

func (p *progress) start(file *os.File) {
	p.file, p.began = file, time.Now()
	p.next = p.began.Add(2 * progressEvery)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		p.size = info.Size()
	}
}

// Read reads the file for the reader of captures, a large piece at a time.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	p.read += int64(n)
	if p.on {
		if now := time.Now(); now.After(p.next) {
			p.next = now.Add(progressEvery)
			p.show(now)
		}
	}
	return n, err
}

func (p *progress) show(now time.Time) {
	const width = 30
	rate := float64(p.packets) / now.Sub(p.began).Seconds() / 1e6
	bar := ""
	if p.size > 0 {
		done := min(int(p.read*width/p.size), width)
		bar = fmt.Sprintf("[%s%s] %3d %%  ", repeat('#', done), repeat('.', width-done), p.read*100/p.size)
	}
	fmt.Fprintf(p.std.err, "\r\x1b[K%s%.1f million packets, %.2f million/s", bar, float64(p.packets)/1e6, rate)
	p.visible = true
}

func (p *progress) clear() {
	if p.visible {
		fmt.Fprint(p.std.err, "\r\x1b[K")
		p.visible = false
	}
}

func repeat(c byte, n int) string { return string(slices.Repeat([]byte{c}, n)) }
