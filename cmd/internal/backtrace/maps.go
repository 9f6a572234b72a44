package backtrace

import (
	"strings"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
)

// codeIn returns the mappings that have code of a file, of the text of /proc/PID/maps.
func codeIn(maps string) (list []procmaps.Mapping) {
	for m, err := range procmaps.Read(strings.NewReader(maps)) {
		if err == nil && m.Executable() && strings.HasPrefix(m.Path, "/") {
			list = append(list, m)
		}
	}
	return list
}

// at returns the mapping of an address; nil: no file has it.
func at(list []procmaps.Mapping, pc uint64) *procmaps.Mapping {
	for i := range list {
		if m := &list[i]; m.Start <= pc && pc < m.End {
			return m
		}
	}
	return nil
}
