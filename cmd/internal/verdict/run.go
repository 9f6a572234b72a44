package verdict

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// Names of the files in the directory.
const (
	PageFile    = "verdict.md"
	CaptureFile = "packets.pcapng"
	LadderFile  = "verdict.html"
	CheckFile   = "check.txt"
	CheckJSON   = "check.json"
	ObjectsFile = "objects.json"
	FaultsFile  = "faults.json"
	ErrorsFile  = "errors.json"
	RunFile     = "run.json"
	MisuseFile  = "misuse.json"
	SARIFFile   = "misuse.sarif"
)

// CaptureMax bounds the capture of a verdict, in bytes of packets.
const CaptureMax = 64 << 20

// Run is a program that has ended, and what is known of it.
type Run struct {
	Command  []string      `json:"command"`        // as the user typed it
	Role     string        `json:"role,omitempty"` // in a pair, of which this is one end
	Pair     bool          `json:"pair,omitempty"` // it is a pair: two programs
	Exit     int           `json:"exit_status"`
	Signal   string        `json:"signal,omitempty"` // that killed it, as SIGKILL
	Missed   bool          `json:"a_fault_rule_never_fired,omitempty"`
	Chaos    uint64        `json:"chaos,omitempty"` // its seed
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Hosts    []Host        `json:"hosts,omitempty"` // of a lab

	// Report is nil if the daemon is gone. Trouble says why.
	Report  *proto.Report  `json:"-"`
	Trouble string         `json:"trouble,omitempty"`
	Faults  []fault.Status `json:"-"`

	lost map[*conformance.Flow]uint64 // packets that fault rules lost
}

// Failed reports whether the run ended with an error.
func (r *Run) Failed() bool { return r.Exit != 0 || r.Signal != "" || r.Missed || r.misuse() > 0 }

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

// CapturePath is where the daemon captures. The name differs from run to run: no run takes another
// one's capture for its own.
func CapturePath(dir string) string {
	return filepath.Join(dir, strings.Replace(anyCapture, "*", strconv.Itoa(os.Getpid()), 1))
}

// anyCapture is the pattern of the names of CapturePath.
const anyCapture = "packets-*.pcapng"

// PagePath is the page of a directory.
func PagePath(dir string) string { return filepath.Join(dir, PageFile) }
