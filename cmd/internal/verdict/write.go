package verdict

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/pcap/ladder"
	"github.com/gorxe/gorxe/internal/pcap/plot"
	"github.com/gorxe/gorxe/internal/pcap/read"
	"github.com/gorxe/gorxe/internal/pcap/report"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// maxFindings is how many findings of each rule are listed.
const maxFindings = 20

// objects is the state of every object at the end.
type objects struct {
	Session proto.SessionStatus   `json:"session"`
	Ended   []proto.ProcessStatus `json:"ended"`
	LeftOut int                   `json:"ended_left_out,omitempty"`
	Devices []proto.DeviceStatus  `json:"devices"`
}

// Write writes the verdict into a directory that Prepare has made. It renames the capture to
// its final name.
func (r *Run) Write(ctx context.Context, dir string) error {
	defer unlock()
	if err := os.Rename(CapturePath(dir), filepath.Join(dir, CaptureFile)); err != nil {
		return err
	}
	checked, err := r.check(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(
		writeJSON(dir, RunFile, r),
		writeJSON(dir, FaultsFile, struct {
			Rules  []fault.Status `json:"rules"`
			Missed int            `json:"missed"`
		}{append([]fault.Status{}, r.Faults...), len(fault.Missed(r.Faults))}),
		r.writeReport(dir),
		r.writeMisuse(dir),
		write(dir, PageFile, func(w io.Writer) error { return r.page(w, checked) }),
	)
}

func (r *Run) writeReport(dir string) error {
	rep := r.Report
	if rep == nil {
		return nil
	}
	return errors.Join(
		writeJSON(dir, ErrorsFile, rep.Errors),
		writeJSON(dir, ObjectsFile, objects{rep.Session, rep.Ended, rep.EndedLeftOut, rep.Devices}))
}

// check judges the capture, and draws it. A capture without packets is no error.
func (r *Run) check(ctx context.Context, dir string) (*report.Capture, error) {
	file, err := read.Open(ctx, filepath.Join(dir, CaptureFile), nil)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	checked := &report.Capture{File: CaptureFile}
	var text bytes.Buffer
	printer := report.NewFindings(&text, maxFindings)
	var listed []conformance.Finding
	packets := ladder.Collector{Story: r.story(), Plot: new(plot.Collector)}
	r.lost = make(map[*conformance.Flow]uint64)
	rep, err := file.Check(conformance.Options{OnFinding: func(x *conformance.Finding) {
		if printer.Count(x) {
			printer.Print(CaptureFile, x)
			listed = append(listed, *x)
		}
	}}, func(p *capture.Packet, v *conformance.Verdict) error {
		packets.Add(p, v)
		if v.Flow != nil && ladder.Lost(p.Comment) {
			r.lost[v.Flow]++
		}
		return nil
	})
	if checked.Err = err; rep != nil {
		checked.Report = *rep
	}
	checked.Findings = listed
	printer.Rest()
	checked.WriteSummary(&text, report.Form{})
	checked.WriteVerdict(&text, CaptureFile, nil)
	if checked.Cut {
		text.WriteString(CaptureFile + ": " + report.CutText(checked.CutAt) + "\n")
	}
	if checked.Err != nil {
		text.WriteString(CaptureFile + ": " + checked.Err.Error() + "\n")
	}
	packets.Findings(checked.AtEnd)
	packets.Story.Sides = sentences(r.blame(checked))
	return checked, errors.Join(
		write(dir, CheckFile, func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		}),
		writeJSON(dir, CheckJSON, report.JSON([]*report.Capture{checked})),
		write(dir, LadderFile, func(w io.Writer) error {
			return packets.WriteHTML(w, file.Title, checked.Summary, checked.Err)
		}))
}

func writeJSON(dir, name string, v any) error {
	return write(dir, name, func(w io.Writer) error { return report.WriteJSON(w, v) })
}

// write makes a file that does not exist yet. Another user may have the right to write into the
// directory, and a link of theirs would lead to any file.
func write(dir, name string, do func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}
