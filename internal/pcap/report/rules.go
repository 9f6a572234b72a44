package report

import (
	"fmt"
	"io"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// jsonRule is a rule as JSON.
type jsonRule struct {
	Name     string   `json:"name"`
	Severity string   `json:"severity"`
	Clause   string   `json:"clause"`
	Text     string   `json:"text"`
	Implies  []string `json:"implies,omitempty"`
}

// WriteRules prints the rules, or writes them as JSON.
func WriteRules(w io.Writer, asJSON bool, form Form) error {
	if asJSON {
		var list []jsonRule
		for _, r := range conformance.Rules() {
			list = append(list, jsonRule{r.Name, r.Severity.String(), r.Clause, r.Text, r.Implies})
		}
		return WriteJSON(w, list)
	}
	for _, r := range conformance.Rules() {
		fmt.Fprintf(w, "%s: %s, %s\n", r.Name, r.Severity, r.Clause)
		lines := []string{r.Text}
		if !form.Wide {
			lines = wrap(r.Text, form.width()-len(indent))
		}
		for _, line := range lines {
			fmt.Fprintf(w, "%s%s\n", indent, line)
		}
	}
	return nil
}

const indent = "    "
