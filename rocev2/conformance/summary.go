package conformance

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
)

// Summary is what a Checker has seen.
type Summary struct {
	Packets     uint64 // frames in the capture
	RoCEv2      uint64
	RoCEv1      uint64
	InfiniBand  uint64
	Other       uint64
	Truncated   uint64 // of those with a transport
	Bytes       uint64 // of all frames, as captured
	First, Last time.Time
	Forgotten   int // flows, for lack of memory: Options.MaxFlows

	PerRule                     []RuleCount // in the order of Rules
	Notes, Warnings, Violations uint64
	Flows                       []*Flow
}

// RuleCount is how often a rule had something to say.
type RuleCount struct {
	Notes, Warnings, Violations uint64
	FirstPacket                 int // 0 for never
}

// Total is the number of findings.
func (r RuleCount) Total() uint64 { return r.Notes + r.Warnings + r.Violations }

func (s *Summary) add(x *Finding) {
	r := &s.PerRule[x.Rule.index]
	if r.FirstPacket == 0 {
		r.FirstPacket = x.Packet
	}
	switch x.Severity {
	case Note:
		r.Notes++
		s.Notes++
	case Warning:
		r.Warnings++
		s.Warnings++
	default:
		r.Violations++
		s.Violations++
	}
}

// Of returns the count of one rule, zero if there is none of that name, or if the
// summary is the zero one.
func (s *Summary) Of(rule string) RuleCount {
	if r := RuleByName(rule); r != nil && r.index < len(s.PerRule) {
		return s.PerRule[r.index]
	}
	return RuleCount{}
}

// Summary returns what has been seen so far. Its flows are the checker's own and
// change with the next Add.
func (c *Checker) Summary() Summary {
	s := c.summary
	s.PerRule = append([]RuleCount(nil), s.PerRule...)
	s.Flows = c.list()
	return s
}

func (c *Checker) count(p *capture.Packet) {
	s := &c.summary
	if s.Packets == 0 {
		s.First = p.Time
	}
	s.Packets++
	s.Last = p.Time
	s.Bytes += uint64(len(p.Frame))
	switch p.Kind {
	case capture.RoCEv2:
		s.RoCEv2++
	case capture.RoCEv1:
		s.RoCEv1++
	case capture.InfiniBand:
		s.InfiniBand++
	default:
		s.Other++
		return
	}
	if p.Truncated() {
		s.Truncated++
	}
}

// Report is the verdict on a capture.
type Report struct {
	Summary
	// Findings are all but those of rules that were ignored, up to MaxFindings.
	Findings []Finding
	// Cut: the file ends within a packet.
	Cut bool
	// Drops is how many packets the file itself says that it lacks.
	Drops uint64
}

// MaxFindings bounds Report.Findings: a capture of something else entirely has
// one or more per packet.
const MaxFindings = 10000

// Check reads a capture to its end and judges it.
func Check(in io.Reader, opts Options) (*Report, error) {
	report := new(Report)
	own := opts.OnFinding
	opts.OnFinding = func(x *Finding) {
		if len(report.Findings) < MaxFindings {
			report.Findings = append(report.Findings, *x)
		}
		if own != nil {
			own(x)
		}
	}
	c, err := New(opts)
	if err != nil {
		return nil, err
	}
	r, err := capture.NewReader(in)
	if err != nil {
		return nil, err
	}
	var p capture.Packet
	for {
		err := r.Next(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, capture.ErrCut) {
			report.Cut = true
			break
		}
		if err != nil {
			return nil, err
		}
		c.Add(&p)
	}
	c.Close()
	report.Summary = c.Summary()
	report.Drops = r.Drops()
	return report, nil
}

// CheckFile is Check of a file.
func CheckFile(name string, opts Options) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Check(f, opts)
}
