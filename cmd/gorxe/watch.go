package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

type watchCmd struct {
	Socket   string        `placeholder:"PATH" predictor:"file" help:"Socket of the daemon, as of gorxe status."`
	Interval time.Duration `default:"500ms" help:"Time between two questions to the daemon (default: ${default})."`
	JSON     bool          `name:"json" help:"Print an object for each line."`
	Count    int           `placeholder:"N" help:"End after N questions (default: when interrupted)."`
}

// Help is the part of `gorxe watch --help` above the flags.
func (watchCmd) Help() string {
	return `Prints a line for each thing that happens, for a log: sessions and processes that come and go, queue pairs with their states, errors, fault rules that fire, and packets that were lost or sent again. What comes and goes between two questions is not seen.

The exit code is 0, 1 if no daemon is reachable, 2 if the command line is wrong.

Examples:
  gorxe watch
  gorxe watch --json >>run.log`
}

// occurrence is a line of gorxe watch.
type occurrence struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"` // session, process, queue pair, error, fault or device
	Session uint64    `json:"session,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Device  string    `json:"device,omitempty"`
	QP      string    `json:"qp,omitempty"` // six hexadecimal digits
	Text    string    `json:"text"`
}

// Run prints lines.
func (c watchCmd) Run(newContext contexts, std streams) error {
	if err := checkRepeat(c.Interval, c.Count); err != nil {
		return err
	}
	var w watching
	return repeatTimes(newContext, c.Interval, c.Count, func() error {
		st, err := askStatus(c.Socket)
		if err != nil {
			return err
		}
		client, err := dialDaemon(c.Socket) // which answers one question
		if err != nil {
			return err
		}
		defer client.Close()
		failed, err := client.Errors()
		if err != nil {
			return err
		}
		for _, o := range w.look(st, failed, time.Now()) {
			if err := c.print(std.out, &o); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c watchCmd) print(w io.Writer, o *occurrence) error {
	if c.JSON {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	parts := []string{o.Time.Format("2006-01-02T15:04:05.000Z07:00")}
	if o.Kind != "process" && o.Kind != "queue pair" {
		parts = append(parts, o.Kind)
	}
	if o.Session != 0 {
		parts = append(parts, fmt.Sprint(o.Session))
	}
	if o.PID != 0 {
		parts = append(parts, fmt.Sprintf("process %d", o.PID))
	}
	if o.Device != "" {
		parts = append(parts, o.Device)
	}
	if o.QP != "" {
		parts = append(parts, "queue pair "+o.QP)
	}
	_, err := fmt.Fprintf(w, "%s: %s\n", strings.Join(parts, " "), printable(o.Text))
	return err
}

// thing is what a status has.
type thing struct {
	state string
	is    occurrence
}

// watching is what the last status had.
type watching struct {
	seen  map[string]thing     // what there is
	lost  map[string]uint64    // counters of packets that were lost or sent again
	last  map[uint64]time.Time // of the errors of each session
	found []occurrence
	now   time.Time
}

// look returns what has changed.
func (w *watching) look(st *proto.Status, failed []proto.Errors, now time.Time) []occurrence {
	if w.found, w.now = nil, now; w.last == nil {
		w.last = make(map[uint64]time.Time)
	}
	before, counted := w.seen, w.lost
	w.seen, w.lost = make(map[string]thing), make(map[string]uint64)
	for i := range st.Sessions {
		s := &st.Sessions[i]
		w.note(before, fmt.Sprintf("session %d", s.ID), strings.Join(s.Command, " "), occurrence{Kind: "session", Session: s.ID})
		for j := range s.Processes {
			w.process(before, counted, &s.Processes[j])
		}
	}
	for i := range st.Devices {
		d := &st.Devices[i]
		for _, name := range slices.Sorted(maps.Keys(d.Counters)) {
			if strings.HasPrefix(name, "drop_") || name == "icrc_errors" {
				w.count(counted, d.Name+" "+name, d.Counters[name], occurrence{Kind: "device", Device: d.Name, Text: name})
			}
		}
	}
	for _, h := range st.FaultsFired {
		name := h.Where + " " + h.What
		w.count(counted, "fault "+name, h.Fired, occurrence{Kind: "fault", Text: name})
	}
	w.failed(failed)
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := w.seen[key]; !ok {
			o := before[key].is
			o.Time, o.Text = now, "gone, was "+before[key].state
			w.found = append(w.found, o)
		}
	}
	return w.found
}

func (w *watching) process(before map[string]thing, counted map[string]uint64, p *proto.ProcessStatus) {
	w.note(before, fmt.Sprintf("process %d", p.PID), p.Name, occurrence{Kind: "process", PID: p.PID})
	for i := range p.Files {
		f := &p.Files[i]
		for j := range f.QPs {
			q := &f.QPs[j]
			o := occurrence{Kind: "queue pair", PID: p.PID, Device: f.Device, QP: fmt.Sprintf("0x%06x", q.QPN)}
			key := fmt.Sprintf("queue pair %s of process %d", o.QP, p.PID)
			w.note(before, key, q.State, o)
			for _, name := range []string{"retransmits", "dropped"} {
				o.Text = name
				w.count(counted, key+name, q.Counters[name], o)
			}
		}
	}
}

// note keeps a state, and finds that it is new.
func (w *watching) note(before map[string]thing, key, state string, o occurrence) {
	w.seen[key] = thing{state, o}
	if was, ok := before[key]; !ok || was.state != state {
		o.Time, o.Text = w.now, state
		if ok {
			o.Text = was.state + " to " + state
		}
		w.found = append(w.found, o)
	}
}

// count keeps a counter, and finds that it has grown.
func (w *watching) count(before map[string]uint64, key string, n uint64, o occurrence) {
	w.lost[key] = n
	if was, ok := before[key]; ok && n > was {
		o.Time = w.now
		o.Text = fmt.Sprintf("%s +%d", o.Text, n-was)
		w.found = append(w.found, o)
	}
}

// failed finds the errors that are new.
func (w *watching) failed(list []proto.Errors) {
	for i := range list {
		last := w.last[list[i].Session]
		for j := range list[i].Errors {
			x := &list[i].Errors[j]
			if !x.Time.After(last) {
				continue
			}
			o := occurrence{Time: x.Time, Kind: "error", PID: x.PID, Device: x.Device, Text: x.String()}
			if x.QPN != 0 {
				o.QP = fmt.Sprintf("0x%06x", x.QPN)
			}
			w.found = append(w.found, o)
			w.last[list[i].Session] = x.Time
		}
	}
}
