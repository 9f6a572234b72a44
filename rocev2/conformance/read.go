package conformance

import (
	"errors"
	"io"
	"os"

	"github.com/gorxe/gorxe/rocev2/capture"
)

// Report is the verdict on a capture.
type Report struct {
	Summary
	// Findings are those of the rules that are not ignored, up to MaxFindings.
	Findings []Finding
	// AtEnd are the findings that only the end of the capture brought, for example
	// about a request that was never answered. Findings has them as well.
	AtEnd []Finding
	// Cut reports that the file ends within a packet, which begins at byte CutAt of the
	// uncompressed file.
	Cut   bool
	CutAt int64
	// Drops is the number of packets that the file itself records as lost.
	Drops uint64
}

// MaxFindings bounds Report.Findings, because a capture of another protocol on
// RoCEv2's port has at least one finding per packet.
const MaxFindings = 10000

// Check reads a capture to its end and judges it.
func Check(in io.Reader, opts Options) (*Report, error) {
	report, err := Read(in, opts, nil)
	if err != nil {
		return nil, err
	}
	return report, nil
}

// CheckFile is Check for the file of the given name.
func CheckFile(name string, opts Options) (*Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Check(f, opts)
}

// Read reads a capture to its end, judges each packet, and passes it to visit with
// its verdict, unless visit is nil. Both are valid only during the call.
//
// An error of reading or of visit ends the capture there, and the Report covers the
// packets up to it. The Report is nil only if in is not a capture, or opts are wrong.
func Read(in io.Reader, opts Options, visit func(*capture.Packet, *Verdict) error) (*Report, error) {
	report := new(Report)
	onFinding := opts.OnFinding
	opts.OnFinding = func(x *Finding) {
		if len(report.Findings) < MaxFindings {
			report.Findings = append(report.Findings, *x)
		}
		if onFinding != nil {
			onFinding(x)
		}
	}
	checker, err := New(opts)
	if err != nil {
		return nil, err
	}
	packets, err := capture.NewReader(in)
	if err != nil {
		return nil, err
	}
	err = checker.addAll(packets, visit)
	report.Cut = errors.Is(err, capture.ErrCut)
	if report.Cut {
		report.CutAt = packets.Offset()
	}
	if report.Cut || errors.Is(err, io.EOF) {
		err = nil
	}
	report.AtEnd = checker.Close()
	report.Summary = checker.Summary()
	report.Drops = packets.Drops()
	return report, err
}

// addAll adds packets until there is an error, which is io.EOF at the end.
func (c *Checker) addAll(packets *capture.Reader, visit func(*capture.Packet, *Verdict) error) error {
	var p capture.Packet
	for {
		if err := packets.Next(&p); err != nil {
			return err
		}
		v := c.Add(&p)
		if visit == nil {
			continue
		}
		if err := visit(&p, v); err != nil {
			return err
		}
	}
}
