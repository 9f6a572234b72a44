package report

import "github.com/gorxe/gorxe/rocev2/conformance"

// Paint gives a text the color of a severity; nil: there are no colors.
type Paint func(conformance.Severity, string) string

// count paints a count, unless it is 0.
func (p Paint) count(s conformance.Severity, n uint64, text string) string {
	if n == 0 {
		return text
	}
	return p.of(s, text)
}

func (p Paint) of(s conformance.Severity, text string) string {
	if p == nil {
		return text
	}
	return p(s, text)
}
