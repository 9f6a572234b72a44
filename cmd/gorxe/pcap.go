package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// pcapCmd groups what works on capture files.
type pcapCmd struct {
	Check  pcapCheckCmd  `cmd:"" help:"Say whether captured traffic obeys the protocol."`
	Show   pcapShowCmd   `cmd:"" help:"Print packets: as lines, with every field, as ladder diagrams."`
	Replay pcapReplayCmd `cmd:"" help:"Hold the engine to what captured devices did."`
}

// Help is the part of `gorxe pcap --help` above the flags.
func (pcapCmd) Help() string {
	return `Captures are pcap or pcapng files, plain or gzip, from tcpdump, Wireshark, a switch, 'gorxe demo' or 'gorxe run --pcap'. The traffic may be any device's.

Examples:
  gorxe pcap check run.pcapng
  gorxe pcap check --rules
  gorxe pcap show --html run.html run.pcapng
  gorxe pcap replay run.pcapng`
}

// ruleInfo is one rule as --rules --json prints it.
type ruleInfo struct {
	Name     string   `json:"name"`
	Severity string   `json:"severity"`
	Clause   string   `json:"clause"`
	Text     string   `json:"text"`
	Implies  []string `json:"implies,omitempty"`
}

// listRules prints what there is to break.
func listRules(std streams, asJSON bool) error {
	if asJSON {
		var list []ruleInfo
		for _, r := range conformance.Rules() {
			list = append(list, ruleInfo{r.Name, r.Severity.String(), r.Clause, r.Text, r.Implies})
		}
		return writeJSON(std, list)
	}
	t := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tSEVERITY\tCLAUSE\tTEXT")
	for _, r := range conformance.Rules() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, r.Severity, r.Clause, r.Text)
	}
	return t.Flush()
}

func writeJSON(std streams, v any) error {
	enc := json.NewEncoder(std.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
