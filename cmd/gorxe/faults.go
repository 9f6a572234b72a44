package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/fault/rulefile"
	"github.com/gorxe/gorxe/internal/service/keeper"
)

// envFaults has further fault rules of `gorxe run`.
const envFaults = "GORXE_FAULTS"

// exitMissed is the exit code of a run with a fault rule that never fired.
const exitMissed = 3

// rules returns the fault rules of the flags and of the environment.
func (c *runCmd) rules() ([]string, error) {
	rules := c.Fault
	if keeper.Nested() && len(c.Fault)+len(c.Faults) == 0 {
		return nil, nil // the environment's rules are those of the outer run
	}
	for _, file := range c.Faults {
		more, err := readRules(file)
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	for text := range strings.SplitSeq(os.Getenv(envFaults), ";") {
		if text = strings.TrimSpace(text); text != "" {
			rules = append(rules, text)
		}
	}
	if err := checkRules(rules); err != nil {
		if took := taken(c.trialFlags.taking()); took != "" {
			err = fmt.Errorf("%w. %s", err, took)
		}
		return nil, usageError{err}
	}
	if len(rules) == 0 && (c.FaultsMayMiss || c.FaultReport != "") {
		return nil, usageError{errors.New("--faults-may-miss and --fault-report are for fault rules, and there is none: give --fault or --faults")}
	}
	return rules, nil
}

// checkRules reports whether each rule can fire.
func checkRules(texts []string) error {
	rules := make([]fault.Rule, len(texts))
	for i, text := range texts {
		var err error
		if rules[i], err = fault.Parse(text); err != nil {
			return err
		}
	}
	return fault.Shadowed(rules)
}

// readRules returns the rules of a file.
func readRules(path string) (rules []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{fmt.Errorf("--faults: %w", err)}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, rulefile.MaxBytes+1))
	if err != nil {
		return nil, usageError{fmt.Errorf("--faults: %w", err)}
	}
	list, err := rulefile.Parse(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s:%w", path, err)}
	}
	for i := range list {
		rules = append(rules, list[i].String())
	}
	return rules, nil
}

// faultReport is what --fault-report writes.
type faultReport struct {
	Rules  []fault.Status `json:"rules"`
	Missed int            `json:"missed"` // rules that never fired
}

func reportOf(list []fault.Status) faultReport {
	return faultReport{list, len(fault.Missed(list))}
}

// faultsFired reports what the rules of a run did, and returns an error if one never fired.
func (c *runCmd) faultsFired(outcome keeper.Outcome, rules []string, std streams) error {
	if len(rules) == 0 {
		return nil
	}
	if outcome.FaultsErr != nil {
		return &keeper.ExitError{Code: exitMissed, Err: fmt.Errorf("what the fault rules did is not known: %w", outcome.FaultsErr)}
	}
	report := reportOf(outcome.Faults)
	if c.FaultReport != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err == nil {
			err = os.WriteFile(c.FaultReport, append(text, '\n'), 0o666)
		}
		if err != nil {
			return &keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("--fault-report: %w", err)}
		}
	}
	if report.Missed > 0 && !c.FaultsMayMiss {
		fault.WriteTable(std.err, outcome.Faults) //nolint:errcheck // the exit code says it too
		if outcome.Report != nil {
			if says := unfound(fault.Missed(outcome.Faults), outcome.Report.Devices); says != "" {
				fmt.Fprintf(std.err, "gorxe: %s\n", says)
			}
		}
	}
	return missedError(outcome.Faults, c.FaultsMayMiss, nil)
}
