package backtrace

import (
	"strings"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// Name gives the places of a report their lines, and takes away what they were made of.
func Name(r *sanitize.Report) {
	n := namer{images: make(map[string]*image)}
	for _, text := range r.Maps {
		n.maps = append(n.maps, parseMaps(text))
	}
	for i := range r.Findings {
		for j := range r.Findings[i].Places {
			p := &r.Findings[i].Places[j]
			if p.Stack != nil {
				p.Lines = shown(n.frames(p.Stack))
				p.Stack = nil
			}
		}
	}
	r.Maps = nil
}

// below are the libraries between a program and a trapped call.
var below = []string{"libc.so", "libc-", "libpthread", "libibverbs", "librxe", "libmlx5", "librdmacm", "ld-linux"}

// shown leaves out what the libraries of RDMA do within a verb, and what comes before main.
func shown(list []sanitize.Frame) []sanitize.Frame {
	first := 0
	for first < len(list) && isBelow(list[first].Module) {
		first++
	}
	if first == len(list) {
		return list
	}
	if first > 0 && list[first-1].Function != "" {
		first-- // the verb
	}
	list = list[first:]
	for i := range list {
		if list[i].Function == "main" {
			return list[:i+1]
		}
		if i > 0 && isBelow(list[i].Module) {
			return list[:i] // __libc_start_main
		}
	}
	return list
}

func isBelow(module string) bool {
	for _, prefix := range below {
		if strings.HasPrefix(module, prefix) {
			return true
		}
	}
	return false
}
