package script

import (
	"fmt"
	"strings"
)

const (
	reportBegins = "=== a small script that fails\n"
	reportEnds   = "=== what happens\n"
)

// Report shows a small script: the commands, then with what they do, then as a ladder.
func Report(lines []string) string {
	o := Play(lines)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n%s%s=== ladder\n", reportBegins, strings.Join(lines, "\n"), reportEnds, o.Output)
	if err := o.Script.WriteLadder(&b); err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// ReadReport finds a report in the output of a test, and returns its commands. They failed if
// problem is not empty.
func ReadReport(output string) (lines []string, problem string) {
	_, text, _ := strings.Cut(output, reportBegins)
	text, rest, found := strings.Cut(text, strings.TrimSuffix(reportEnds, "\n"))
	if !found {
		return nil, ""
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	_, problem, _ = strings.Cut(rest, "PROBLEM ")
	problem, _, _ = strings.Cut(problem, "\n")
	return lines, problem
}
