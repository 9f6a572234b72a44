package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/verdict"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// verdictFlags choose where a verdict goes.
type verdictFlags struct {
	Verdict          string `placeholder:"DIR" predictor:"file" xor:"verdict" help:"Write what happened to this directory, which must be empty, or not exist, or have an earlier verdict, which this replaces: a page that says in words what the wire and the device saw and which side was at fault, a capture of at most 64 MiB, its check, the packets as a page, objects, errors, fault rules. See gorxe help verdict."`
	VerdictOnFailure string `name:"verdict-on-failure" placeholder:"DIR" predictor:"file" xor:"verdict" help:"Write a verdict to this directory, as --verdict does, but keep it only if the program ends with an error or a fault rule never fired."`
}

// one of them is empty
func (f *verdictFlags) dir() string { return f.Verdict + f.VerdictOnFailure }

// flag returns the flag that was given.
func (f *verdictFlags) flag() string {
	if f.Verdict != "" {
		return "--verdict"
	}
	return "--verdict-on-failure"
}

// capture returns the path of the verdict's capture; empty: there shall be no verdict.
func (f *verdictFlags) capture(pcap string) (string, error) {
	switch {
	case f.dir() == "":
		return "", nil
	case pcap != "":
		return "", usageError{fmt.Errorf("%s has a capture of its own, %s: leave --pcap out", f.flag(), verdict.CaptureFile)}
	case keeper.Nested():
		return "", &keeper.ExitError{Code: keeper.ExitFailed, Err: fmt.Errorf("%s has no effect in a gorxe run within another: give it to the outer one", f.flag())}
	}
	return verdict.CapturePath(f.dir()), nil
}

func (f *verdictFlags) captureMax() uint64 {
	if f.dir() == "" {
		return 0
	}
	return verdict.CaptureMax
}

// prepare makes the directory.
func (f *verdictFlags) prepare() error {
	if f.dir() == "" {
		return nil
	}
	if err := verdict.Prepare(f.dir()); err != nil {
		return &unprepared{fmt.Errorf("%s: %w", f.flag(), err)}
	}
	return nil
}

// unprepared is the error of a directory that cannot take a verdict.
type unprepared struct{ error }

// failed is called if the program was not started.
func (f *verdictFlags) failed(err error) error {
	var dir *unprepared
	if f.dir() == "" || errors.As(err, &dir) {
		return err
	}
	verdict.Discard(f.dir()) //nolint:errcheck // err says more
	var exit *keeper.ExitError
	if errors.As(err, &exit) && errors.Is(err, proto.ErrCapture) {
		return &keeper.ExitError{Code: exit.Code, Err: fmt.Errorf("%s, which captures as --pcap does: %w", f.flag(), exit.Err)}
	}
	return err
}

// noteEnd notes in r how a run ended.
func noteEnd(r *verdict.Run, outcome *keeper.Outcome) {
	code, signal := outcome.Status()
	r.Exit, r.Duration = code, time.Since(r.Started)
	if signal != 0 {
		r.Signal = unix.SignalName(signal)
	}
	r.Report, r.Faults = outcome.Report, outcome.Faults
	if err := errors.Join(outcome.ReportErr, outcome.FaultsErr); err != nil {
		r.Trouble = err.Error()
	}
}

// write writes the verdict. The exit code is the program's, whether or not that succeeds.
func (f *verdictFlags) write(r *verdict.Run, outcome *keeper.Outcome, std streams) {
	noteEnd(r, outcome)
	if f.Verdict == "" && !r.Failed() {
		if err := verdict.Discard(f.dir()); err != nil {
			complain(std, fmt.Errorf("%s: %w", f.flag(), err))
		}
		return
	}
	f.writeRun(r, std)
}

// writeRun writes the verdict of a run that has ended.
func (f *verdictFlags) writeRun(r *verdict.Run, std streams) {
	if err := r.Write(context.Background(), f.dir()); err != nil {
		complain(std, fmt.Errorf("%s: %w", f.flag(), err))
		return
	}
	fmt.Fprintf(std.err, "gorxe: the verdict is %s\n", printable(verdict.PagePath(f.dir())))
}
