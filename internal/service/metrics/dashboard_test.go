package metrics

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
)

// exported are the metrics of daemons, and of the containers of a host, each with its labels.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	registry := prometheus.NewRegistry()
	place := proto.Place{Namespace: "n", Pod: "p", Container: "c"}
	st := example()
	st.Sessions[0].Place = place
	pods := []proto.PodStatus{{Place: place, Containers: []proto.Place{place}, Status: st}}
	registry.MustRegister(collector{example}, containers{func() ([]proto.PodStatus, []error) { return pods, nil }, slog.Default()})
	// of serve
	labels := map[string]map[string]bool{"gorxe_build_info": {"version": true, "commit": true, "instance": true}}
	families, err := registry.Gather()
	must.OK(t, err)
	for _, f := range families {
		labels[f.GetName()] = map[string]bool{"instance": true} // Prometheus adds this one
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[f.GetName()][l.GetName()] = true
			}
			if m.Histogram != nil {
				labels[f.GetName()]["le"] = true
			}
		}
	}
	return labels
}

// TestDocument: docs/metrics.md names each metric, and no other.
func TestDocument(t *testing.T) {
	text := must.Get[[]byte](t)(os.ReadFile("../../../docs/metrics.md"))
	_, table, found := strings.Cut(string(text), "|---|---|---|\n")
	if !found {
		t.Fatal("there is no table")
	}
	named := map[string]bool{}
	for name := range exported(t) {
		named[strings.TrimPrefix(name, "gorxe_")] = false
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

var (
	metricIn   = regexp.MustCompile(`(gorxe_\w+)(?:{([^}]*)})?`)
	matcherIn  = regexp.MustCompile(`(\w+)=~?"`)
	legendIn   = regexp.MustCompile(`{{\s*(?:\$labels\.)?(\w+)\s*}}`)
	variableIn = regexp.MustCompile(`\$\{?([a-z]\w*)`)
)

// check: what an expression and its text ask for exists. It returns the metrics.
func check(t *testing.T, where, expr, text string) (names []string) {
	t.Helper()
	labels := exported(t)
	for _, m := range metricIn.FindAllStringSubmatch(expr, -1) {
		if of := strings.TrimSuffix(m[1], "_bucket"); labels[of]["le"] {
			m[1] = of
		}
		names = append(names, m[1])
		if labels[m[1]] == nil {
			t.Errorf("%s: there is no %s", where, m[1])
			continue
		}
		for _, l := range append(matcherIn.FindAllStringSubmatch(m[2], -1), legendIn.FindAllStringSubmatch(text, -1)...) {
			if !labels[m[1]][l[1]] {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
	}
	return names
}

// The dashboard asks for metrics and labels that exist, of the chosen instances, pods and devices.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Query string }
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	must.OK(t, json.Unmarshal(must.Get[[]byte](t)(os.ReadFile("../../../dist/grafana-dashboard.json")), &dashboard))
	variables := make(map[string]bool)
	for _, v := range dashboard.Templating.List {
		for _, used := range variableIn.FindAllStringSubmatch(v.Query, -1) {
			if !variables[used[1]] {
				t.Errorf("variable %s: no variable %s above it", v.Name, used[1])
			}
		}
		variables[v.Name] = true
		if metric, label, ok := strings.Cut(strings.TrimSuffix(v.Query, ")"), ", "); ok {
			check(t, v.Name, metric, "{{"+label+"}}")
		}
	}
	asked := make(map[string]bool)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range check(t, p.Title, target.Expr, target.LegendFormat) {
				asked[name] = true
			}
			for _, selector := range metricIn.FindAllStringSubmatch(target.Expr, -1) {
				if !strings.Contains(selector[2], `instance=~"$instance"`) {
					t.Errorf("%s: %s is of all instances", p.Title, selector[0])
				}
			}
			for _, used := range variableIn.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[used[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, used[1])
				}
			}
		}
	}
	if len(asked) < 12 || !variables["instance"] || !variables["pod"] {
		t.Errorf("the dashboard asks for %d metrics only, by %v", len(asked), variables)
	}
}

// The alerts are on metrics and labels that exist.
func TestRules(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(must.Get[[]byte](t)(os.ReadFile("../../../dist/prometheus-rules.yaml")))))
	decoder.KnownFields(true)
	must.OK(t, decoder.Decode(&file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 5 {
		t.Fatalf("%+v", file)
	}
	for _, r := range file.Groups[0].Rules {
		if names := check(t, r.Alert, r.Expr, r.Annotations["summary"]); len(names) == 0 || r.Annotations["summary"] == "" {
			t.Errorf("rule %s is %+v", r.Alert, r)
		}
	}
}
