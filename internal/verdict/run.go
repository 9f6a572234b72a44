package verdict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// Names of the files in the directory.
const (
	PageFile    = "verdict.md"
	CaptureFile = "packets.pcapng"
	LadderFile  = "packets.html"
	CheckFile   = "check.txt"
	CheckJSON   = "check.json"
	ObjectsFile = "objects.json"
	FaultsFile  = "faults.json"
	ErrorsFile  = "errors.json"
	RunFile     = "run.json"
)

// CaptureMax bounds the capture of a verdict, in bytes of packets.
const CaptureMax = 64 << 20

// Run is a program that has ended, and what is known of it.
type Run struct {
	Command  []string      `json:"command"`
	Exit     int           `json:"exit_status"`
	Signal   string        `json:"signal,omitempty"` // that killed it, as SIGKILL
	Missed   bool          `json:"a_fault_rule_never_fired,omitempty"`
	Chaos    uint64        `json:"chaos,omitempty"` // its seed
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`

	// Report is nil if the daemon is gone. Trouble says why.
	Report  *proto.Report  `json:"-"`
	Trouble string         `json:"trouble,omitempty"`
	Faults  []fault.Status `json:"-"`
}

// Failed reports whether the run ended with an error.
func (r *Run) Failed() bool { return r.Exit != 0 || r.Signal != "" || r.Missed }

// records are the errors that are kept.
func (r *Run) records() []explain.Record {
	if r.Report == nil {
		return nil
	}
	return r.Report.Errors.Errors
}

// kept is how many errors the records stand for.
func (r *Run) kept() (n uint64) {
	for _, x := range r.records() {
		n += x.Count
	}
	return n
}

// Prepare makes the directory of a verdict, which must be empty or not exist, and proves that files
// can be written there.
func Prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("%s: it has files, as %s: give an empty directory, or one that does not exist", dir, list[0].Name())
	}
	f, err := os.OpenFile(CapturePath(dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Discard removes what Prepare and the run have made, and the directory if nothing else is in it. A
// directory that Prepare did not take stays as it is.
func Discard(dir string) error {
	switch err := os.Remove(CapturePath(dir)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	_ = unix.Rmdir(dir) // others may have put files there; a link to a directory stays
	return nil
}

// CapturePath is where the daemon captures. The name differs from run to run: a daemon that is
// idle, and still has the capture of an earlier run, makes room for one that has this.
func CapturePath(dir string) string {
	return filepath.Join(dir, "packets-"+strconv.Itoa(os.Getpid())+".pcapng")
}

// PagePath is the page of a directory.
func PagePath(dir string) string { return filepath.Join(dir, PageFile) }
