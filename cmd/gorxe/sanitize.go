package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/gorxe/gorxe/cmd/internal/backtrace"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/sys/buildinfo"
)

// envSanitize has the checks of `gorxe run` if the flag is missing.
const envSanitize = "GORXE_SANITIZE"

// mostExit is the largest exit code that a parent sees.
const mostExit = 255

// sanitizeFlags have a run look for misuse of verbs.
type sanitizeFlags struct {
	Sanitize         sanitizeChecks `placeholder:"CHECKS" help:"Look for misuse of verbs, as a sanitizer does, and print at the end what is found where in the program. CHECKS, behind an equals sign, are names or groups with commas between them; a minus in front takes one away: --sanitize=all,-leak. An error is exit code 4. $$GORXE_SANITIZE has the checks if the flag is missing. More mistakes show with --chaos. See gorxe help sanitizer."`
	SanitizeExit     int            `name:"sanitize-exit" default:"4" placeholder:"CODE" help:"The exit code if the sanitizer has found an error (default: 4; 0: the program's)."`
	SanitizeTo       string         `name:"sanitize-to" placeholder:"FILE" predictor:"file" help:"Write what the sanitizer found to this file, as JSON, or as SARIF if its name ends with .sarif."`
	SanitizeSuppress string         `name:"sanitize-suppress" placeholder:"FILE" predictor:"file" help:"A file of findings that are known: a check on each line, and what narrows it, as leak,function=ucp_*. See gorxe help sanitizer."`
	SanitizeAbort    bool           `name:"sanitize-abort" help:"End the process with SIGABRT at its first error."`

	suppressions sanitize.Suppressions
}

// sanitizeChecks is the value of --sanitize; empty: there is no sanitizer.
type sanitizeChecks string

// IsBool implements kong.BoolMapperValue: the flag needs no value.
func (*sanitizeChecks) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (s *sanitizeChecks) Decode(ctx *kong.DecodeContext) error {
	text := sanitize.Default
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		text = fmt.Sprint(ctx.Scan.Pop().Value)
	}
	return s.set(text)
}

func (s *sanitizeChecks) set(text string) error {
	if text == "" { // as --sanitize=$CHECKS may be
		text = sanitize.Default
	}
	if _, err := sanitize.ParseSelection(text); err != nil {
		return err
	}
	*s = sanitizeChecks(text)
	return nil
}

// chooseChecks takes the checks of the environment, if the flag is missing, and reads the
// suppressions.
func (f *sanitizeFlags) chooseChecks() error {
	// the environment's are those of the outer run
	if text := os.Getenv(envSanitize); f.Sanitize == "" && text != "" && !keeper.Nested() {
		if err := f.Sanitize.set(text); err != nil {
			return usageError{fmt.Errorf("%s: %w", envSanitize, err)}
		}
	}
	if f.Sanitize == "" && (f.SanitizeTo != "" || f.SanitizeSuppress != "" || f.SanitizeAbort) {
		return usageError{errors.New("--sanitize-to, --sanitize-suppress and --sanitize-abort need --sanitize")}
	}
	if f.SanitizeExit < 0 || f.SanitizeExit > mostExit {
		return usageError{fmt.Errorf("--sanitize-exit: %d is no exit code: give 0 to %d", f.SanitizeExit, mostExit)}
	}
	if f.SanitizeTo != "" { // the program should not run in vain
		if _, err := os.Stat(filepath.Dir(f.SanitizeTo)); err != nil {
			return usageError{fmt.Errorf("--sanitize-to: %w", err)}
		}
	}
	if f.SanitizeSuppress == "" {
		return nil
	}
	file, err := os.Open(f.SanitizeSuppress)
	if err != nil {
		return usageError{fmt.Errorf("--sanitize-suppress: %w", err)}
	}
	defer file.Close()
	if f.suppressions, err = sanitize.ParseSuppressions(file); err != nil {
		return usageError{fmt.Errorf("--sanitize-suppress: %s: %w", f.SanitizeSuppress, err)}
	}
	return nil
}

// name gives what was found its lines, and marks what is suppressed.
func (f *sanitizeFlags) name(outcome *keeper.Outcome) {
	if outcome.Report == nil || outcome.Report.Sanitizer == nil {
		return
	}
	backtrace.Name(outcome.Report.Sanitizer)
	outcome.Report.Sanitizer.Suppress(f.suppressions)
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
	r.Write(std.err)
	if f.SanitizeTo != "" {
		if err := writeMisuse(f.SanitizeTo, r); err != nil {
			return &keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("--sanitize-to: %w", err)}
		}
	}
	if n := r.Count(sanitize.Error); n > 0 && f.SanitizeExit != 0 {
		what := "the sanitizer found an error"
		if how := outcome.Failed(); how != "" {
			what += "; the program " + how // the exit code does not say so
		}
		return &keeper.ExitError{Code: f.SanitizeExit, Err: errors.New(what)}
	}
	return nil
}

// writeMisuse writes a report to a file.
func writeMisuse(path string, r *sanitize.Report) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	var v any = r
	if filepath.Ext(path) == ".sarif" {
		root, _ := os.Getwd() // without it, paths are absolute
		v = r.SARIF(buildinfo.Get().Version, root)
	}
	return errors.Join(writeJSON(file, v), file.Close())
}
