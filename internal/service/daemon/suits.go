package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// suits refuses a session that requests something that is fixed when a daemon starts. The caller holds
// mu.
func (s *Server) suits(w *proto.Wanted) error {
	if w.Capture != "" && w.Capture != s.cfg.Capture {
		return &misfit{"--pcap", "", "give --pcap when it is started"}
	}
	if w.ECN != "" {
		have, _ := proto.ParseECN(s.cfg.ECN) // as Start did
		if want, err := proto.ParseECN(w.ECN); err != nil || want != have {
			return &misfit{fmt.Sprint("--ecn ", w.ECN), " with another --ecn", "leave --ecn out"}
		}
	}
	devices := fmt.Sprint(" with ", s.cfg.Devices)
	for _, d := range w.Devices {
		if !slices.ContainsFunc(s.cfg.Devices, d.Suits) {
			return &misfit{fmt.Sprint("--device ", d), devices, "leave --device out"}
		}
	}
	if len(w.Devices) > 0 || w.Speed == 0 {
		return nil
	}
	for _, d := range s.cfg.Devices {
		if d.Speed != w.Speed {
			return &misfit{fmt.Sprint("--speed ", w.Speed), devices, "leave --speed out"}
		}
	}
	return nil
}

// misfit is the error of a session that wants what a running daemon does not have.
type misfit struct{ flag, how, remedy string }

func (m *misfit) Error() string {
	return fmt.Sprintf("%s: it is running already%s (process %d): %s", m.flag, m.how, os.Getpid(), m.remedy)
}

// named adds the programs that keep the daemon to a misfit. It reads /proc, so the caller holds no lock.
func (s *Server) named(err error) error {
	var m *misfit
	if !errors.As(err, &m) {
		return err
	}
	return fmt.Errorf("%w, or take a daemon of this run's own with --private or --socket%s", err, s.holders())
}

// maxHolders bounds the programs that are named.
const maxHolders = 3

// holders names the programs that keep a private daemon, the oldest first. They are of one user. The user ends a
// process to be rid of the daemon: that of the program, or what the program left behind.
func (s *Server) holders() string {
	if !s.cfg.Private {
		return ""
	}
	s.mu.Lock()
	list := slices.SortedFunc(maps.Keys(s.sessions), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	s.mu.Unlock()
	var names []string
	for _, n := range list[:min(len(list), maxHolders)] {
		names = append(names, fmt.Sprintf("%q (%s)", strings.Join(n.command, " "), n.processes()))
	}
	if len(list) > maxHolders {
		names = append(names, fmt.Sprintf("%d more", len(list)-maxHolders))
	}
	if len(names) == 0 {
		return ""
	}
	return ". It runs for " + strings.Join(names, ", ")
}

// processes lists the children of the keeper: the program, and orphans that it left.
func (n *session) processes() string {
	n.mu.Lock()
	keeper := n.keeper
	n.mu.Unlock()
	if keeper == 0 {
		return "which starts"
	}
	var list []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", keeper)) // the pattern is correct
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err == nil { // otherwise the thread has ended
			list = append(list, strings.Fields(string(text))...)
		}
	}
	if len(list) == 0 {
		return fmt.Sprint("under process ", keeper)
	}
	return "process " + strings.Join(list, ", ")
}
