package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shrink reduces commands that end in a problem to fewer and simpler ones that end in a problem
// of the same kind. It returns nil if there is no problem.
//
// It is delta debugging: pieces of the list are left out, from large ones to single commands, as
// long as the problem stays. Then options are left out, and numbers become smaller. Commands say
// where in flight a packet is, so some can only be left out if another one changes with them.
func Shrink(lines []string) []string {
	first := play(lines, true)
	if first.Problem == nil {
		return nil
	}
	fails := func(candidate []string) bool {
		o := play(candidate, true)
		return o.Problem != nil && o.Problem.kind() == first.Problem.kind()
	}
	lines = slices.Clone(lines[:first.At+1])
	for before := []string(nil); !slices.Equal(before, lines); {
		before = slices.Clone(lines)
		lines = leaveOut(lines, fails)
		for i := range lines {
			lines[i] = simplify(lines, i, fails)
		}
		if len(lines) <= manyLines {
			lines = leaveOutTwo(lines, fails)
		}
	}
	return lines
}

// manyLines is the longest list of commands of which all pairs are tried.
const manyLines = 30

// leaveOutTwo leaves out a command while another one is left out too, or becomes simpler.
func leaveOutTwo(lines []string, fails func([]string) bool) []string {
	for i := 0; i < len(lines); i++ {
		rest := slices.Delete(slices.Clone(lines), i, i+1)
		for j := range rest {
			for _, other := range append([]string{""}, simplerLines(rest[j])...) {
				candidate := slices.Clone(rest)
				candidate[j] = other
				if other == "" {
					candidate = slices.Delete(candidate, j, j+1)
				}
				if fails(candidate) {
					return leaveOutTwo(candidate, fails)
				}
			}
		}
	}
	return lines
}

// simplerLines returns a command with each of its words left out or smaller.
func simplerLines(line string) (list []string) {
	words := strings.Fields(line)
	for k := 1; k < len(words); k++ {
		list = append(list, strings.Join(slices.Delete(slices.Clone(words), k, k+1), " "))
		for _, smaller := range smallerWords(words[k]) {
			candidate := slices.Clone(words)
			candidate[k] = smaller
			list = append(list, strings.Join(candidate, " "))
		}
	}
	return list
}

// kind says what must stay the same while a script becomes smaller.
func (p *Problem) kind() string {
	if i := strings.Index(p.Text, "IBV_"); i >= 0 {
		return p.Kind + p.Text[i:]
	}
	return p.Kind
}

// leaveOut returns the lines without those that the problem does not need.
func leaveOut(lines []string, fails func([]string) bool) []string {
	for size := (len(lines) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(lines); {
			end := min(at+size, len(lines))
			candidate := append(slices.Clone(lines[:at]), lines[end:]...)
			if fails(candidate) {
				lines = candidate
			} else {
				at = end
			}
		}
	}
	return lines
}

// simplify returns line i in the simplest form with which the problem stays.
func simplify(lines []string, i int, fails func([]string) bool) string {
	words := strings.Fields(lines[i])
	try := func(candidate []string) bool {
		all := slices.Clone(lines)
		all[i] = strings.Join(candidate, " ")
		if !fails(all) {
			return false
		}
		words = candidate
		return true
	}
	for k := len(words) - 1; k > 0; k-- {
		try(slices.Delete(slices.Clone(words), k, k+1))
	}
	for k := 1; k < len(words); k++ {
		for _, smaller := range smallerWords(words[k]) {
			candidate := slices.Clone(words)
			candidate[k] = smaller
			if try(candidate) {
				break
			}
		}
	}
	return strings.Join(words, " ")
}

// smallerWords returns what could stand for a number or a duration, simplest first.
func smallerWords(word string) (list []string) {
	name, value, found := strings.Cut(word, "=")
	if !found {
		name, value = "", word
	} else {
		name += "="
	}
	if d, err := time.ParseDuration(value); err == nil && d > 0 && strings.HasSuffix(value, "s") {
		for t := 10 * time.Microsecond; t < time.Minute; t *= 10 {
			if t < d || t > d && t < 10*d && !isPower(d) {
				list = append(list, name+strings.Replace(t.String(), "µ", "u", 1))
			}
		}
		return list
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return nil
	}
	for _, k := range []uint64{0, 1, 8, 100, 256, 300, 600, 1024, n / 2, n * 3 / 4, n - 1} {
		if k < n {
			list = append(list, fmt.Sprintf("%s%d", name, k))
		}
	}
	return list
}

// isPower reports whether d is one of the durations that smallerWords proposes.
func isPower(d time.Duration) bool {
	for t := 10 * time.Microsecond; t < time.Minute; t *= 10 {
		if t == d {
			return true
		}
	}
	return false
}
