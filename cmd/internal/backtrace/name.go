package backtrace

import (
	"strings"
	"time"

	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// Name gives the places of a report their lines, and takes away what they were made of. The files
// of a hostile program may take forever: what has no line in time, has none.
func Name(r *sanitize.Report) { nameFor(r, timeLimit) }

func nameFor(r *sanitize.Report, timeLimit time.Duration) {
	var places []*sanitize.Place
	var stacks []*sanitize.Stack
	for i := range r.Findings {
		for j := range r.Findings[i].Places {
			if p := &r.Findings[i].Places[j]; p.Stack != nil {
				places, stacks = append(places, p), append(stacks, p.Stack)
				p.Stack = nil
			}
		}
	}
	lines := make(chan []sanitize.Frame)
	over := make(chan struct{})
	defer close(over)
	go name(r.Maps, stacks, lines, over)
	r.Maps = nil
	late := time.After(timeLimit)
	for _, p := range places {
		select {
		case p.Lines = <-lines:
		case <-late:
			return
		}
	}
}

// name sends the frames of each stack, until that is over.
func name(maps []string, stacks []*sanitize.Stack, lines chan<- []sanitize.Frame, over <-chan struct{}) {
	n := namer{images: make(map[string]*image), left: newBudget()}
	for _, text := range maps {
		n.maps = append(n.maps, codeIn(text))
	}
	for _, s := range stacks {
		select {
		case lines <- shown(n.frames(s)):
		case <-over:
			return
		}
	}
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
