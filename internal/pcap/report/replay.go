package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/pcap/replay"
)

// JSONReplay is the replay of one capture as JSON.
type JSONReplay struct {
	File   string         `json:"file"`
	Error  string         `json:"error,omitempty"`
	Report *replay.Report `json:"report"` // null if nothing could be read
}

// NewJSONReplay returns the JSON of a replay; err is why the file could not be read
// to its end.
func NewJSONReplay(file string, r *replay.Report, err error) JSONReplay {
	j := JSONReplay{File: file, Report: r}
	if err != nil {
		j.Error = err.Error()
	}
	return j
}

// Detail is how much of a replay is printed.
type Detail struct {
	Quiet   bool // only the line that sums up
	Verbose bool // every session and every difference
}

// WriteReplay prints what a replay showed: the sessions with differences, and one line that sums
// up.
func WriteReplay(out io.Writer, file string, r *replay.Report, detail Detail) {
	w, verbose := out, detail.Verbose
	if detail.Quiet {
		w = io.Discard
	}
	played, compared, explained, stopped, unsent := 0, 0, 0, 0, 0
	for _, s := range r.Sessions {
		played += s.Played
		compared += s.Compared
		unsent += s.Free[replay.NotSent]
		explained += len(s.Differences) + s.More - s.Unexplained()
		if s.Stopped != "" {
			stopped++
		}
		if verbose || len(s.Differences) > 0 || s.Stopped != "" {
			writeSession(w, s, verbose)
		}
	}
	for _, k := range r.Skipped {
		fmt.Fprintf(w, "not played: %s\n", joined(k.Flow, k.Why))
	}
	if unsent > 0 {
		fmt.Fprintf(w, "not compared: %s, because the capture lacks the responses that the engine waits for\n", plural.Of(unsent, "request"))
	}
	if p := r.Part; p != nil {
		fmt.Fprintf(w, "replayed the first %s, %.1f MiB, %.3f s: the rest does not fit in the bound of %s\n",
			plural.Of(p.Packets, "packet"), float64(p.Bytes)/(1<<20), p.Seconds, p.Bound)
	}
	verdict := "equal"
	switch n := r.Unexplained(); {
	case n == 1:
		verdict = fmt.Sprintf("1 difference is not explained, %d are", explained)
	case n > 1:
		verdict = fmt.Sprintf("%d differences are not explained, %d are", n, explained)
	case explained == 1:
		verdict = "equal, except for 1 difference that is explained"
	case explained > 1:
		verdict = fmt.Sprintf("equal, except for %d differences that are explained", explained)
	case compared == 0:
		verdict = "nothing to compare"
	}
	switch {
	case stopped == 1:
		verdict += "; 1 session was not played to its end"
	case stopped > 1:
		verdict += fmt.Sprintf("; %d sessions were not played to their end", stopped)
	}
	fmt.Fprintf(out, "%s: %s, %d packets and requests played, %s compared: %s\n", file,
		plural.Of(len(r.Sessions), "session"), played, plural.Of(compared, "packet"), verdict)
}

func joined(flow, why string) string {
	if flow == "" {
		return why
	}
	return flow + ": " + why
}

func writeSession(w io.Writer, s *replay.Session, verbose bool) {
	fmt.Fprintf(w, "%s, from packet %d, the engine as %s: %d played, %d compared\n", s.Flow, s.First, s.Role, s.Played, s.Compared)
	writeCounts(w, "free", s.Free)
	writeCounts(w, "assumed", s.Assumed)
	writeDifferences(w, s, verbose)
	if s.Stopped != "" {
		fmt.Fprintf(w, "  stopped: %s\n", s.Stopped)
	}
}

func writeCounts(w io.Writer, what string, n map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(w, "  %s: %s, %s\n", what, name, plural.Of(n[name], "time"))
	}
}

// writeDifferences prints the first difference of each kind, or all if verbose.
func writeDifferences(w io.Writer, s *replay.Session, verbose bool) {
	type kind struct{ about, explained string }
	seen := make(map[kind]int)
	for i := range s.Differences {
		d := &s.Differences[i]
		k := kind{d.About, d.Explained}
		if seen[k]++; seen[k] == 1 || verbose {
			fmt.Fprintf(w, "  %v\n", d)
		}
	}
	if s.More > 0 {
		defer fmt.Fprintf(w, "  and %d more\n", s.More)
	}
	if verbose {
		return
	}
	kinds := slices.SortedFunc(maps.Keys(seen), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.about, b.about), cmp.Compare(a.explained, b.explained))
	})
	for _, k := range kinds {
		if n := seen[k] - 1; n > 0 {
			fmt.Fprintf(w, "  and %d more about the %s: -v prints them\n", n, k.about)
		}
	}
}
