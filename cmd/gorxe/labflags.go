package main

import (
	"slices"

	"github.com/gorxe/gorxe/cmd/internal/verdict"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
)

// whyVerdict is the option that tells a user of gorxe lab or pair --hosts why something failed:
// --explain does not work there. whyNone: the user has given it already.
const (
	whyVerdict = "--verdict DIR"
	whyNone    = "none"
)

// labFlags are those with which gorxe lab starts the program of a host.
type labFlags struct {
	Link    []string `name:"link" hidden:"" sep:"none" help:"A fault rule that is the model of a link. It need not fire."`
	PCAPMax uint64   `name:"pcap-max" hidden:"" help:"How many bytes of packets --pcap captures. Its file exists, and is empty."`
	Why     string   `name:"why" hidden:"" help:"What says why something failed, as the user gives it to the command around this one (default: --explain; none: it is said anyway)."`
	SaveTo  string   `name:"save-to" hidden:"" help:"Write what is known of the run to this file, for the verdict of a lab."`
}

// isLink reports whether a rule is the model of a link.
func (f *labFlags) isLink(s fault.Status) bool {
	return slices.ContainsFunc(f.Link, func(text string) bool {
		r, err := fault.Parse(text)
		return err == nil && r.String() == s.Rule
	})
}

// takeLinks removes the rules of links from those that the user has given, and returns them.
func (f *labFlags) takeLinks(outcome *keeper.Outcome) (links []fault.Status) {
	outcome.Faults = slices.DeleteFunc(outcome.Faults, func(s fault.Status) bool {
		if !f.isLink(s) {
			return false
		}
		links = append(links, s)
		return true
	})
	return links
}

// save writes the file of --save-to, if it is wanted.
func (f *labFlags) save(r *verdict.Run, outcome *keeper.Outcome, missed bool, links []fault.Status, std streams) {
	if f.SaveTo == "" {
		return
	}
	r.Missed = missed
	noteEnd(r, outcome)
	if err := r.Save(f.SaveTo, links); err != nil {
		complain(std, err)
	}
}
