package verdict

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// Host is the run on one host of a lab.
type Host struct {
	Name    string   `json:"name"`
	Address string   `json:"address"` // of its first device
	Command []string `json:"command"`
	Exit    int      `json:"exit_status"` // as a shell shows it
	// by the lab, because the others had ended or one had failed
	Stopped bool           `json:"stopped"`
	Run     *Run           `json:"-"` // nil: nothing is known of it
	Links   []fault.Status `json:"-"`
}

// saved is a run as a file.
type saved struct {
	Run    *Run
	Report *proto.Report
	Faults []fault.Status
	Links  []fault.Status // rules that are the models of links
}

// Save writes a run to a file, for Load.
func (r *Run) Save(path string, links []fault.Status) error {
	text, err := json.Marshal(saved{r, r.Report, r.Faults, links})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// Load reads what Save has written.
func (h *Host) Load(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Run == nil {
		return errors.New(path + " has no run")
	}
	s.Run.Report, s.Run.Faults = s.Report, s.Faults
	h.Run, h.Links = s.Run, s.Links
	return nil
}

// Join makes one run of those of all hosts. Names of programs and devices have the host's name
// before them. The exit status is the lab's. Processes of all hosts have different numbers.
func Join(command []string, started time.Time, exit int, hosts []Host) *Run {
	all := &Run{Command: command, Exit: exit, Started: started, Duration: time.Since(started), Hosts: hosts}
	var troubles []string
	for i := range hosts {
		h := &hosts[i]
		if h.Run == nil {
			continue
		}
		all.Missed = all.Missed || h.Run.Missed
		all.Faults = append(all.Faults, h.Run.Faults...)
		if h.Run.Trouble != "" {
			troubles = append(troubles, h.Name+": "+h.Run.Trouble)
		}
		if h.Run.Report != nil {
			if all.Report == nil {
				all.Report = new(proto.Report)
			}
			h.addTo(all.Report)
		}
	}
	all.Trouble = strings.Join(troubles, "; ")
	if rep := all.Report; rep != nil {
		slices.SortStableFunc(rep.Errors.Errors, func(a, b explain.Record) int { return a.Time.Compare(b.Time) })
	} else {
		all.Trouble = cmp.Or(all.Trouble, "no host has reported")
	}
	if !all.wentWell() {
		all.addLinks()
	}
	return all
}

// addTo adds the report of a host to that of all.
func (h *Host) addTo(all *proto.Report) {
	rep, before := h.Run.Report, h.Name+":"
	all.Errors.Total += rep.Errors.Total
	for _, x := range rep.Errors.Errors {
		x.Program, x.Device = before+cmp.Or(x.Program, "?"), before+x.Device
		all.Errors.Errors = append(all.Errors.Errors, x)
	}
	for _, e := range rep.Ends {
		e.Name = before + e.Name
		all.Ends = append(all.Ends, e)
	}
	for _, s := range rep.Steps {
		s.Name = before + s.Name
		all.Steps = append(all.Steps, s)
	}
	all.StepsLeftOut += rep.StepsLeftOut
	if rep.Work != nil {
		all.WorkOfOthers = append(all.WorkOfOthers, rep.Work)
	}
	named := func(list []proto.ProcessStatus) []proto.ProcessStatus {
		list = slices.Clone(list)
		for i := range list {
			list[i].Name = before + list[i].Name
		}
		return list
	}
	all.Ended = append(all.Ended, named(rep.Ended)...)
	all.EndedLeftOut += rep.EndedLeftOut
	all.Session.Processes = append(all.Session.Processes, named(rep.Session.Processes)...)
	all.Session.FilesLeftOut += rep.Session.FilesLeftOut
	all.Session.CMIDs = append(all.Session.CMIDs, rep.Session.CMIDs...)
	all.Session.CMIDsLeftOut += rep.Session.CMIDsLeftOut
	for _, d := range rep.Devices {
		d.Name = before + d.Name
		if !slices.ContainsFunc(all.Devices, func(o proto.DeviceStatus) bool { return o.Name == d.Name }) {
			all.Devices = append(all.Devices, d)
		}
	}
	all.CaptureLeftOut += rep.CaptureLeftOut
}

// addLinks adds the rules of links that may have lost packets.
func (r *Run) addLinks() {
	for i := range r.Hosts {
		for _, s := range r.Hosts[i].Links {
			if s.Fired > 0 && (strings.Contains(s.Rule, ",loss=") || strings.Contains(s.Rule, ",rate=")) {
				r.Faults = append(r.Faults, s)
			}
		}
	}
}

// failing returns the first host whose program failed by itself, or nil.
func (r *Run) failing() *Host {
	i := slices.IndexFunc(r.Hosts, func(h Host) bool { return h.Exit != 0 && !h.Stopped })
	if i < 0 {
		return nil
	}
	return &r.Hosts[i]
}

// ofLab is the subject of a lab.
func (r *Run) ofLab() string {
	if h := r.failing(); h != nil && r.Exit != 0 {
		return "the program of " + h.Name
	}
	return "the lab"
}

// hostsSection lists the hosts of a lab.
func (r *Run) hostsSection(p *page) {
	if len(r.Hosts) == 0 {
		return
	}
	p.line("\n## Hosts\n\n| host | address | program | exit status | errors |\n|---|---|---|---|---|")
	for i := range r.Hosts {
		h := &r.Hosts[i]
		errs := "not known"
		if h.Run != nil && h.Run.Report != nil {
			errs = strconv.FormatUint(h.Run.Report.Errors.Total, 10)
		}
		status := strconv.Itoa(h.Exit)
		if h.Stopped {
			status = "the lab ended it"
		}
		p.line("| %s | %s | `%s` | %s | %s |", cell(h.Name), h.Address, codeCell(strings.Join(h.Command, " ")), status, errs)
	}
}
