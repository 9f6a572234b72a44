package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gorxe/gorxe/internal/pcap/replay"
)

type pcapReplayCmd struct {
	Files   []string `arg:"" name:"file" help:"Captures: pcap or pcapng, plain or gzip; - is standard input."`
	Verbose bool     `short:"v" help:"Print every session and every difference."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Help is the part of `gorxe pcap replay --help` above the flags.
func (pcapReplayCmd) Help() string {
	return `Holds this device's engine to what captured devices did: as responder it gets the captured requests, as requester the captured responses, and what it sends is compared with what the captured device sent. Nothing goes over a network. Acknowledgements may be coalesced, and time, credits and where a retry begins are free; all else is a difference, which is explained where the reason is known.

The exit code is 0 if all is equal or explained, 1 if not or if a file cannot be read, 2 if the command line is wrong.

Examples:
  gorxe pcap replay run.pcapng
  gorxe pcap replay -v captures/*.pcap`
}

// replayed is one file's result.
type replayed struct {
	File   string         `json:"file"`
	Error  string         `json:"error,omitempty"`
	Report *replay.Report `json:"report"`
}

// Run replays the captures.
func (c pcapReplayCmd) Run(std streams) error {
	out := bufio.NewWriter(std.out)
	var results []replayed
	failed := false
	for _, file := range c.Files {
		r, err := replayFile(file)
		if err != nil {
			complain(std, fmt.Errorf("%s: %w", file, err))
		}
		failed = failed || err != nil || r.Unexplained() > 0
		if r == nil {
			continue
		}
		if c.JSON {
			result := replayed{File: file, Report: r}
			if err != nil {
				result.Error = err.Error()
			}
			results = append(results, result)
			continue
		}
		c.print(out, file, r)
	}
	err := out.Flush()
	if c.JSON {
		err = writeJSON(std, results)
	}
	if err == nil && failed {
		return errSaid
	}
	return err
}

func replayFile(file string) (*replay.Report, error) {
	in, _, err := openCapture(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return replay.Replay(in)
}

// print writes what a replay showed: sessions with something to say, and a line
// that sums up.
func (c pcapReplayCmd) print(w io.Writer, file string, r *replay.Report) {
	played, compared, explained, stopped := 0, 0, 0, 0
	for _, s := range r.Sessions {
		played += s.Played
		compared += s.Compared
		explained += len(s.Differences) + s.More - s.Unexplained()
		if s.Stopped != "" {
			stopped++
		}
		if c.Verbose || len(s.Differences) > 0 || s.Stopped != "" {
			c.session(w, s)
		}
	}
	for _, k := range r.Skipped {
		fmt.Fprintf(w, "not played: %s\n", joined(k.Flow, k.Why))
	}
	verdict := "equal"
	switch n := r.Unexplained(); {
	case n > 0:
		verdict = fmt.Sprintf("%d differences are not explained, %d are", n, explained)
	case explained > 0:
		verdict = fmt.Sprintf("equal, but for %d differences that are explained", explained)
	case compared == 0:
		verdict = "nothing to compare"
	}
	if stopped > 0 {
		verdict += fmt.Sprintf("; %d sessions were not played to their end", stopped)
	}
	fmt.Fprintf(w, "%s: %d sessions, %d packets and requests played, %d packets compared: %s\n", file, len(r.Sessions), played, compared, verdict)
}

func joined(flow, why string) string {
	if flow == "" {
		return why
	}
	return flow + ": " + why
}

func (c pcapReplayCmd) session(w io.Writer, s *replay.Session) {
	fmt.Fprintf(w, "%s, from packet %d, the engine as %s: %d played, %d compared\n", s.Flow, s.First, s.Role, s.Played, s.Compared)
	counts(w, "taken as free", s.Free)
	counts(w, "assumed", s.Assumed)
	c.differences(w, s)
	if s.Stopped != "" {
		fmt.Fprintf(w, "  stopped: %s\n", s.Stopped)
	}
}

func counts(w io.Writer, what string, n map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(w, "  %s: %s, %d times\n", what, name, n[name])
	}
}

// differences prints one of each kind, or all.
func (c pcapReplayCmd) differences(w io.Writer, s *replay.Session) {
	type kind struct{ about, explained string }
	seen := make(map[kind]int)
	for i := range s.Differences {
		d := &s.Differences[i]
		k := kind{d.About, d.Explained}
		if seen[k]++; seen[k] == 1 || c.Verbose {
			fmt.Fprintf(w, "  %v\n", d)
		}
	}
	if s.More > 0 {
		defer fmt.Fprintf(w, "  and %d more\n", s.More)
	}
	if c.Verbose {
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
