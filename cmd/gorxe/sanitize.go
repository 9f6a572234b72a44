package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gorxe/gorxe/cmd/internal/backtrace"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/service/keeper"
)

// sanitizeFlags have a run look for misuse of verbs.
type sanitizeFlags struct {
	Sanitize     sanitizeChecks `placeholder:"CHECKS" help:"Look for misuse of verbs, as a sanitizer does, and print at the end what is found where in the program. CHECKS, behind an equals sign, are names or groups with commas between them; a minus in front takes one away: --sanitize=all,-leak. An error is exit code 4. See gorxe help sanitizer."`
	SanitizeExit int            `name:"sanitize-exit" default:"4" placeholder:"CODE" help:"The exit code if the sanitizer has found an error (default: 4; 0: the program's)."`
	SanitizeTo   string         `name:"sanitize-to" placeholder:"FILE" predictor:"file" help:"Write what the sanitizer found to this file, as JSON."`
}

// sanitizeChecks is the value of --sanitize; empty: there is no sanitizer.
type sanitizeChecks string

// IsBool implements kong.BoolMapperValue: the flag needs no value.
func (*sanitizeChecks) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (s *sanitizeChecks) Decode(ctx *kong.DecodeContext) error {
	text := "all"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		text = fmt.Sprint(ctx.Scan.Pop().Value)
	}
	if _, err := sanitize.ParseSelection(text); err != nil {
		return err
	}
	*s = sanitizeChecks(text)
	return nil
}

// sanitized reports what the sanitizer found, and returns an error with the exit code if the
// program is wrong.
func (f *sanitizeFlags) sanitized(outcome *keeper.Outcome, std streams) error {
	if f.Sanitize == "" {
		return nil
	}
	if outcome.ReportErr != nil || outcome.Report == nil || outcome.Report.Sanitizer == nil {
		return &keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("what the sanitizer found is not known: %v", outcome.ReportErr)}
	}
	r := outcome.Report.Sanitizer
	backtrace.Name(r)
	r.Write(std.err)
	if f.SanitizeTo != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(f.SanitizeTo, append(text, '\n'), 0o666)
		}
		if err != nil {
			return &keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("--sanitize-to: %w", err)}
		}
	}
	if n := r.Count(sanitize.Error); n > 0 && f.SanitizeExit != 0 {
		return &keeper.ExitError{Code: f.SanitizeExit, Err: fmt.Errorf("the sanitizer found an error")}
	}
	return nil
}
