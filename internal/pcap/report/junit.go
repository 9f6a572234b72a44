package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

// JUnitSuites is the JUnit XML that CI systems read, with a suite for each capture.
type JUnitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []JUnitSuite `xml:"testsuite"`
}

// JUnitSuite is a capture, with a case for each rule.
type JUnitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []JUnitCase `xml:"testcase"`
}

// JUnitCase is a rule, applied to a capture.
type JUnitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *JUnitText `xml:"failure,omitempty"`
	Error   *JUnitText `xml:"error,omitempty"`
	Skipped *struct{}  `xml:"skipped,omitempty"`
	Output  string     `xml:"system-out,omitempty"`
}

// JUnitText says why a case failed.
type JUnitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the captures as JUnit XML. Rules named in ignored count as
// skipped; if strict, a warning is a failure.
func WriteJUnit(w io.Writer, captures []*Capture, ignored []string, strict bool) error {
	var all JUnitSuites
	for _, c := range captures {
		all.Suites = append(all.Suites, c.junit(ignored, strict))
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func (c *Capture) junit(ignored []string, strict bool) JUnitSuite {
	s := JUnitSuite{Name: c.File, Time: fmt.Sprintf("%.3f", c.Elapsed.Seconds())}
	why := ""
	switch {
	case c.Err != nil:
		why = c.Err.Error()
	case strict && c.Cut:
		why = CutText(c.CutAt)
	}
	if why != "" {
		s.Errors++
		s.Cases = append(s.Cases, JUnitCase{Class: c.File, Name: "read", Error: &JUnitText{Message: why}})
	}
	for _, rule := range conformance.Rules() {
		n := c.Of(rule.Name)
		tc := JUnitCase{Class: c.File, Name: rule.Name}
		var lines strings.Builder
		for i := range c.Findings {
			if x := &c.Findings[i]; x.Rule == rule {
				fmt.Fprintln(&lines, x)
			}
		}
		switch {
		case slices.Contains(ignored, rule.Name):
			s.Skipped++
			tc.Skipped = &struct{}{}
		case n.Violations > 0 || strict && n.Warnings > 0:
			s.Failures++
			tc.Failure = &JUnitText{
				Message: fmt.Sprintf("%s, %s: %s", plural.Of(n.Violations, "violation"), plural.Of(n.Warnings, "warning"), rule.Text),
				Text:    lines.String(),
			}
		default:
			tc.Output = lines.String()
		}
		s.Cases = append(s.Cases, tc)
	}
	s.Tests = len(s.Cases)
	return s
}
