// Command gotest runs `go test` and reports the result for CI. It prints the closing line of each
// package, the output of failed tests and the names of skipped tests. Totals follow, with the first
// errors of each failed test and with the tests that took longest. With CI=true in the environment
// a skipped test is a failure, so a missing tool does not go unnoticed.
//
// usage: go run ./scripts/gotest [-taken] [go test flags] [packages]
//
// The tests run without go test's own vet, because make vet has all of its checks.
//
// With -taken it holds UDP port 4791 of the loopback addresses meanwhile, as another gorxe on
// the machine would. The tests have to pass beside that one.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "-taken" {
		args = args[1:]
		defer release(take())
	}
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fatal(err)
	}
	if err := cmd.Start(); err != nil {
		fatal(err)
	}
	sum, readErr := report(events, os.Stdout)
	waitErr := cmd.Wait()
	fmt.Println(sum)
	switch {
	case waitErr != nil:
		fatal(fmt.Errorf("go test: %w", waitErr))
	case readErr != nil:
		fatal(readErr)
	case sum.packages == 0:
		fatal(fmt.Errorf("no package was tested"))
	case len(sum.skipped) > 0 && os.Getenv("CI") == "true":
		fatal(fmt.Errorf("%d skipped with CI=true", len(sum.skipped)))
	}
}

// take holds the port of the addresses that `gorxe run --devices 8` and a device on the loopback
// interface have. One that cannot be held is another gorxe's, or there is no IPv6.
func take() (held []net.PacketConn) {
	addresses := []string{"::1"}
	for i := range 8 {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d", i+1))
	}
	for _, a := range addresses {
		if c, err := net.ListenPacket("udp", net.JoinHostPort(a, "4791")); err == nil {
			held = append(held, c)
		}
	}
	return held
}

func release(held []net.PacketConn) {
	for _, c := range held {
		c.Close()
	}
}

func fatal(err error) {
	fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
	os.Exit(1)
}

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // in seconds, without the time in which the test waited for its turn
}

// summary counts tests, subtests included.
type summary struct {
	packages int
	passed   int
	failed   []string
	// of a failed test, by its full name: its first lines of the kind x_test.go:10:
	errors  map[string][]string
	skipped []string
	shuffle map[string]string // package: the seed of its order, to repeat a failure with
	longest []timed           // tests with their subtests
}

// timed is a test and how long it took.
type timed struct {
	name    string
	seconds float64
}

// running is a test that has begun.
type running struct {
	output strings.Builder
	waits  bool // for its turn, which t.Parallel gives
}

func (s summary) String() string {
	line := fmt.Sprintf("TOTAL %d packages: %d tests passed, %d failed, %d skipped",
		s.packages, s.passed, len(s.failed), len(s.skipped))
	for _, name := range s.failed {
		line += "\n  FAILED  " + name
		for _, text := range s.errors[name] {
			line += "\n          " + text
		}
	}
	for _, name := range s.skipped {
		line += "\n  SKIPPED " + name
	}
	const most, least = 12, 10 // tests, and seconds
	slices.SortFunc(s.longest, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range s.longest[:min(len(s.longest), most)] {
		if t.seconds >= least {
			line += fmt.Sprintf("\n  TOOK %3.0f s %s", t.seconds, t.name)
		}
	}
	return line
}

// report reads the events of one go test run and writes what a reader wants to
// see of them to w.
func report(events io.Reader, w io.Writer) (summary, error) {
	sum := summary{shuffle: make(map[string]string), errors: make(map[string][]string)}
	pending := make(map[string]*running) // by full name
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return sum, err
		}
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				// Not an event: go test itself has something to say.
				fmt.Fprintf(w, "%s", line)
			} else {
				sum.add(e, pending, w)
			}
		}
		if err == io.EOF {
			break
		}
	}
	// What is left never finished: its package crashed or timed out.
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		test := pending[name]
		if test.waits {
			sum.failed = append(sum.failed, name+" (did not begin)")
			continue
		}
		fmt.Fprint(w, &test.output)
		errors := firstErrors(test.output.String())
		name += " (did not finish)"
		sum.failed, sum.errors[name] = append(sum.failed, name), errors
	}
	return sum, nil
}

// addPackage accounts for an event of a package as a whole.
func (s *summary) addPackage(e event, w io.Writer) {
	switch e.Action {
	case "output", "build-output":
		switch {
		case e.Output == "PASS\n": // the closing line says it
		case strings.HasPrefix(e.Output, "-test.shuffle "):
			s.shuffle[e.Package] = e.Output
		default:
			fmt.Fprint(w, e.Output)
		}
	case "fail":
		s.packages++
		fmt.Fprint(w, s.shuffle[e.Package])
	case "pass":
		s.packages++
	}
}

// add accounts for one event.
func (s *summary) add(e event, pending map[string]*running, w io.Writer) {
	if e.Test == "" {
		s.addPackage(e, w)
		return
	}
	name := e.Package + "." + e.Test
	test := pending[name]
	switch e.Action {
	case "run":
		test = new(running)
		pending[name] = test
	case "pass", "fail", "skip":
		delete(pending, name)
		if !strings.Contains(e.Test, "/") {
			s.longest = append(s.longest, timed{name, e.Elapsed})
		}
	}
	if test == nil {
		test = new(running)
	}
	switch e.Action {
	case "pause", "cont":
		test.waits = e.Action == "pause"
	case "output":
		test.output.WriteString(e.Output)
	case "pass":
		s.passed++
	case "fail":
		s.failed = append(s.failed, name)
		s.errors[name] = firstErrors(test.output.String())
		fmt.Fprint(w, &test.output)
	case "skip":
		s.skipped = append(s.skipped, name)
		fmt.Fprint(w, &test.output)
	}
}

// errorLine is how the testing package begins what a test says.
var errorLine = regexp.MustCompile(`(?m)^\s*(\w+_test\.go:\d+: .+)$`)

// firstErrors returns the first lines that a test said. The whole output may be far above.
func firstErrors(output string) (list []string) {
	const most, width = 3, 300
	for _, m := range errorLine.FindAllStringSubmatch(output, most) {
		list = append(list, m[1][:min(len(m[1]), width)])
	}
	return list
}
