package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gorxe/gorxe/rocev2/conformance"
)

// JSONRule is a rule as JSON.
type JSONRule struct {
	Name     string   `json:"name"`
	Severity string   `json:"severity"`
	Clause   string   `json:"clause"`
	Text     string   `json:"text"`
	Implies  []string `json:"implies,omitempty"`
}

// WriteRules prints the rules as a table, or as JSON.
func WriteRules(w io.Writer, asJSON bool) error {
	if asJSON {
		var list []JSONRule
		for _, r := range conformance.Rules() {
			list = append(list, JSONRule{r.Name, r.Severity.String(), r.Clause, r.Text, r.Implies})
		}
		return WriteJSON(w, list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tSEVERITY\tCLAUSE\tTEXT")
	for _, r := range conformance.Rules() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, r.Severity, r.Clause, r.Text)
	}
	return t.Flush()
}
