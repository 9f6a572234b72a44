package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// suits refuses a session that requests something that is fixed when a daemon starts. The caller
// holds mu.
func (s *Server) suits(w *proto.Wanted) error {
	if w.Capture != "" && w.Capture != s.cfg.Capture {
		return &misfit{"--pcap", "", "give --pcap when it is started", proto.ErrCapture}
	}
	if w.ECN != "" {
		have, _ := proto.ParseECN(s.cfg.ECN) // as Start did
		if want, err := proto.ParseECN(w.ECN); err != nil || want != have {
			return &misfit{fmt.Sprint("--ecn ", w.ECN), " with another --ecn", "leave --ecn out", nil}
		}
	}
	if w.Segment != "" && w.Segment != s.cfg.Segment {
		how := " without --segment"
		if s.cfg.Segment != "" {
			how = " with --segment " + s.cfg.Segment
		}
		return &misfit{"--segment " + w.Segment, how, "leave --segment out", nil}
	}
	devices := fmt.Sprint(" with ", s.cfg.Devices)
	for _, d := range w.Devices {
		if !slices.ContainsFunc(s.cfg.Devices, d.Suits) {
			return &misfit{fmt.Sprint("--device ", d), devices, "leave --device out", nil}
		}
	}
	if len(w.Devices) > 0 {
		return nil
	}
	for _, d := range s.cfg.Devices {
		if w.Speed != 0 && d.Speed != w.Speed {
			return &misfit{fmt.Sprint("--speed ", w.Speed), devices, "leave --speed out", nil}
		}
		if !w.Like.Suits(d) {
			return &misfit{fmt.Sprint("--like ", w.Like), devices, "leave --like out", nil}
		}
	}
	return nil
}

// misfit is the error of a session that wants what a running daemon does not have.
type misfit struct {
	flag, how, remedy string
	kind              error // of package proto, or nil
}

func (m *misfit) Unwrap() error { return m.kind }

func (m *misfit) Error() string {
	return fmt.Sprintf("%s: it is running already%s (process %d): %s", m.flag, m.how, os.Getpid(), m.remedy)
}

// named adds to a misfit which programs use the daemon, as far as the user may see them: one that
// was left in the background is easily forgotten. It reads /proc, so the caller holds no lock.
func (s *Server) named(err error, uid uint32) error {
	var m *misfit
	if !errors.As(err, &m) {
		return err
	}
	if s.cfg.Conns != nil {
		return fmt.Errorf("%w, and GORXE_DEVICES. Containers that share a network namespace share its devices, and the first one that ran chose them", err)
	}
	return fmt.Errorf("%w, or take a daemon of this run's own with --private or --socket%s", err, s.holders(uid))
}
