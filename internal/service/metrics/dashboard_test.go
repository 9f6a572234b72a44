package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestDocument: docs/metrics.md names each metric, and no other.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "|---|---|---|\n")
	if !found {
		t.Fatal("there is no table")
	}
	named := map[string]bool{"build_info": false} // of Serve
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{example})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		named[strings.TrimPrefix(f.GetName(), "gorxe_")] = false
	}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			if _, ok := named[name[1]]; !ok {
				t.Errorf("there is no metric %s", name[1])
			}
			named[name[1]] = true
		}
	}
	for name, ok := range named {
		if !ok {
			t.Errorf("docs/metrics.md does not name %s", name)
		}
	}
}

// The dashboard asks for metrics and labels that exist.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../dist/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{example})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string]string) // of a metric, each in braces
	for _, f := range families {
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[f.GetName()] += "{{" + l.GetName() + "}}"
		}
		labels[f.GetName()] += " "
	}
	asked := make(map[string]bool)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`gorxe_\w+`).FindAllString(target.Expr, -1) {
				asked[name] = true
				if labels[name] == "" {
					t.Errorf("%s: there is no %s", p.Title, name)
				}
				for _, l := range regexp.MustCompile(`{{\w+}}`).FindAllString(target.LegendFormat, -1) {
					if !strings.Contains(labels[name], l) {
						t.Errorf("%s: %s has no label %s", p.Title, name, l)
					}
				}
			}
		}
	}
	if len(asked) < 12 {
		t.Errorf("the dashboard asks for %d metrics only", len(asked))
	}
}
