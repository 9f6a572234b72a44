package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/doctor"
)

// trialLimit is how long the program of the trial may take. Slow emulators need seconds.
const trialLimit = 30 * time.Second

// trialAddress is of the loopback interface, and of no usual device.
const trialAddress = "127.254.47.91"

type doctorCmd struct {
	JSON   bool `name:"json" help:"Print JSON instead of text."`
	Inside bool `hidden:"" help:"This process is the program of the trial."`
}

// Help is the part of `gorxe doctor --help` above the flags.
func (doctorCmd) Help() string {
	return `Says what this machine or container allows: the kernel, seccomp, access to the memory of programs, limits, the verbs libraries and their release, UDP port 4791 and the offloads of UDP. At the end, a program looks for a device under gorxe run. Below each finding that is not good stands its remedy.

The levels are ok, note, warning (some programs miss something, or speed suffers) and failure (no program can have a device). Nothing is changed.

The exit code is 0 if no finding is a failure, else 1.

Examples:
  gorxe doctor
  gorxe doctor --json
  gorxe doctor || exit 1     # in a script`
}

// Run prints the findings.
func (c doctorCmd) Run(ctx context.Context, std streams) error {
	if c.Inside {
		return lookForDevice()
	}
	host, err := doctor.ThisHost()
	if err != nil {
		return err
	}
	host.Trial = func() error { return tryDevice(ctx) }
	findings := host.Examine()
	if c.JSON {
		err = writeJSON(std.out, findings)
	} else {
		err = writeFindings(std.out, findings)
	}
	if err == nil && doctor.Worst(findings) == doctor.Failure {
		err = errSaid
	}
	return err
}

// levelColors are those of the levels.
var levelColors = map[doctor.Level]string{doctor.OK: green, doctor.Note: dim, doctor.Warning: yellow, doctor.Failure: red}

func writeFindings(w io.Writer, findings []doctor.Finding) error {
	t, color := newTable(w), paintOf(w)
	used := 0
	for _, f := range findings {
		used = max(used, len(f.Subject))
	}
	room := max(t.width-used-len("warning")-2*gap, 20)
	t.width = math.MaxInt // the text is wrapped below, and only an address may be longer than room
	for _, f := range findings {
		level, subject := color.as(levelColors[f.Level], f.Level.String()), f.Subject
		for _, line := range wrap(printableText(f.Text), room) {
			fmt.Fprintf(t, "%s\t%s\t%s\n", level, subject, line)
			level, subject = "", ""
		}
		if f.Remedy == "" {
			continue
		}
		for i, line := range wrap("→ "+f.Remedy, room-2) {
			fmt.Fprintf(t, "\t\t%s%s\n", strings.Repeat("  ", min(i, 1)), line)
		}
	}
	return t.Flush()
}

// tryDevice runs this program under gorxe run, with a daemon of its own.
func tryDevice(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gorxe-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing of the user's is in it
	cmd := exec.CommandContext(ctx, self, "run", "--socket", filepath.Join(dir, "socket"), "--device", "rxe0="+trialAddress,
		"--", self, "doctor", "--inside")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return errors.New(strings.ReplaceAll(text, "\n", "; "))
	}
	return err
}

// lookForDevice does what libibverbs begins with.
func lookForDevice() error {
	const class = "/sys/class/infiniband_verbs/uverbs0/"
	device, err := os.ReadFile(class + "ibdev")
	if err != nil {
		return err
	}
	if name := strings.TrimSpace(string(device)); name != "rxe0" {
		return fmt.Errorf("%sibdev names %q instead of rxe0", class, name)
	}
	node, err := os.OpenFile("/dev/infiniband/uverbs0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return node.Close()
}
