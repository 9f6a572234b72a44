package backtrace

import (
	"strconv"
	"strings"
)

// mapping is a line of /proc/PID/maps with code of a file.
type mapping struct {
	start, end, offset uint64
	inode              uint64 // of the file
	path               string
}

// parseMaps reads /proc/PID/maps.
func parseMaps(text string) (list []mapping) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 6 || !strings.Contains(words[1], "x") || !strings.HasPrefix(words[5], "/") {
			continue
		}
		from, to, _ := strings.Cut(words[0], "-")
		m := mapping{path: strings.TrimSpace(line[strings.Index(line, words[5]):])}
		var errs [4]error
		m.start, errs[0] = strconv.ParseUint(from, 16, 64)
		m.end, errs[1] = strconv.ParseUint(to, 16, 64)
		m.offset, errs[2] = strconv.ParseUint(words[2], 16, 64)
		m.inode, errs[3] = strconv.ParseUint(words[4], 10, 64)
		if errs == [4]error{} {
			list = append(list, m)
		}
	}
	return list
}

// at returns the mapping of an address; nil: no file has it.
func at(list []mapping, pc uint64) *mapping {
	for i := range list {
		if m := &list[i]; m.start <= pc && pc < m.end {
			return m
		}
	}
	return nil
}
