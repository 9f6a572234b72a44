package lab

import (
	"slices"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/cmd/internal/verdict"
)

// Captures returns the captures of the hosts, in the order of the lab, for Merge.
func Captures(lab *labfile.Lab, ends []End) []string {
	paths := make([]string, len(lab.Hosts))
	for _, e := range ends {
		i := slices.IndexFunc(lab.Hosts, func(h labfile.Host) bool { return h.Name == e.Host.Name })
		if e.Capture != "" {
			paths[i] = e.Capture
		}
	}
	return paths
}

// Verdicts returns what is known of the hosts, for a verdict.
func Verdicts(lab *labfile.Lab, ends []End) []verdict.Host {
	list := make([]verdict.Host, 0, len(ends))
	for _, e := range ends {
		h := verdict.Host{
			Name: e.Host.Name, Address: e.Host.Ports[0].Address.Addr().String(), Command: e.Command,
			Exit: e.Code, Stopped: e.Stopped,
		}
		if e.Saved != "" {
			_ = h.Load(e.Saved) // without the file, the page says that nothing is known
		}
		list = append(list, h)
	}
	return list
}
