package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

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
