package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// promDist is where the dashboard and the alerts are.
const promDist = "../../../dist/"

// promSeries are series, as Prometheus's unit tests have them: a value each minute.
type promSeries struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// promSample is what an expression returns.
type promSample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

type promExpr struct {
	Expr    string       `json:"expr"`
	At      string       `json:"eval_time"`
	Samples []promSample `json:"exp_samples"`
}

type promAlert struct {
	At     string           `json:"eval_time"`
	Name   string           `json:"alertname"`
	Alerts []map[string]any `json:"exp_alerts"`
}

type promTest struct {
	Interval string       `json:"interval"`
	Series   []promSeries `json:"input_series"`
	Exprs    []promExpr   `json:"promql_expr_test,omitempty"`
	Alerts   []promAlert  `json:"alert_rule_test,omitempty"`
}

// TestPromtool: Prometheus takes the metrics that a daemon serves and the alerts. Each alert fires
// when it should, and not else. Each expression of the dashboard can be evaluated, and the heat map
// gets the buckets of its histogram. It runs with GORXE_E2E=full.
func TestPromtool(t *testing.T) {
	if !full {
		return
	}
	promtool, err := filepath.Abs("../../../bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	need(t, promtool, "ib_write_bw")
	h, _ := twoHosts(t, 1500)
	const address = "127.0.0.1:9880"
	d := startDaemon(t, h, "--device", "rxe0=eth0", "--metrics", address)
	server := d.run(t, "ib_write_bw", "-F", "-d", "rxe0", "-x", "1", "-n", "100", "-u", "20")
	server.listening(18515)
	d.run(t, "ib_write_bw", "-F", "-d", "rxe0", "-x", "1", "-n", "100", "-u", "20", h.addr).ok()
	server.ok()
	text := scrapeText(t, h, address)
	if !strings.Contains(text, `gorxe_work_request_seconds_bucket{device="rxe0",le="+Inf"} `) {
		t.Errorf("no histogram in\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "metrics")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, h, nil, "sh", "-c", `exec "$0" check metrics <"$1"`, promtool, file).ok()
	rules, err := filepath.Abs(promDist + "prometheus-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	start(t, h, nil, promtool, "check", "rules", rules).ok()

	tests, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []promTest{firing(), calm(), expressions(t)}})
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "tests.yaml") // JSON is YAML
	if err := os.WriteFile(unit, tests, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, h, nil, promtool, "test", "rules", unit).ok()
}

// firing has series for which each alert fires.
func firing() promTest {
	fires := func(name, at, labels, summary string) promAlert {
		l := map[string]string{"severity": "warning"}
		for _, pair := range strings.Split(labels, ",") {
			k, v, _ := strings.Cut(pair, "=")
			l[k] = v
		}
		return promAlert{at, name, []map[string]any{{"exp_labels": l, "exp_annotations": map[string]string{"summary": summary}}}}
	}
	return promTest{
		Interval: "1m",
		Series: []promSeries{
			{`gorxe_port_up{device="rxe0",interface="eth0",port="1"}`, "0x20"},
			{`gorxe_retries_exhausted_total{device="rxe0",limit="retry_cnt"}`, "0 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1"},
			{`gorxe_dropped_packets_total{device="rxe0",reason="port_receive_queue_drop"}`, "0+60x20"},
			{`gorxe_fullest_cq_ratio{device="rxe0",pod="p",container="c"}`, "0.95x20"},
			{`gorxe_daemons{instance="i",state="silent"}`, "2x20"},
		},
		Alerts: []promAlert{
			fires("GorxePortDown", "2m", "device=rxe0,interface=eth0,port=1", "The port of rxe0  is down."),
			fires("GorxeRetriesExhausted", "3m", "device=rxe0,limit=retry_cnt", "A peer of rxe0  did not answer: retry_cnt was reached."),
			{"12m", "GorxeRetriesExhausted", nil}, // it was once
			fires("GorxePacketsLost", "10m", "device=rxe0,reason=port_receive_queue_drop", "The socket of rxe0  loses packets: senders are faster than the daemon."),
			fires("GorxeCompletionQueueFull", "2m", "device=rxe0,pod=p,container=c", "A program p c does not poll a completion queue of rxe0."),
			{"4m", "GorxeDaemonSilent", nil}, // not long enough
			fires("GorxeDaemonSilent", "6m", "instance=i,state=silent", "Daemons of containers on i do not answer."),
		},
	}
}

// calm has series for which none fires.
func calm() promTest {
	test := promTest{
		Interval: "1m",
		Series: []promSeries{
			{`gorxe_port_up{device="rxe0",interface="eth0",port="1"}`, "1x20"},
			{`gorxe_retries_exhausted_total{device="rxe0",limit="retry_cnt"}`, "3x20"},
			{`gorxe_dropped_packets_total{device="rxe0",reason="port_receive_queue_drop"}`, "60x20"},
			{`gorxe_dropped_packets_total{device="rxe0",reason="bad_qpn"}`, "0+60x20"},
			{`gorxe_fullest_cq_ratio{device="rxe0"}`, "0.5x20"},
			{`gorxe_daemons{instance="i",state="silent"}`, "0x20"},
		},
	}
	for _, name := range []string{"GorxePortDown", "GorxeRetriesExhausted", "GorxePacketsLost", "GorxeCompletionQueueFull", "GorxeDaemonSilent"} {
		test.Alerts = append(test.Alerts, promAlert{"15m", name, nil})
	}
	return test
}

// expressions are those of the dashboard, with Grafana's variables filled in. Of the heat map it is
// known what it must return: what each bucket grew by. Grafana's format "heatmap" subtracts a
// bucket from the next one.
func expressions(t *testing.T) promTest {
	t.Helper()
	text, err := os.ReadFile(promDist + "grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, Format string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	test := promTest{Interval: "1m"}
	heat := 0
	variables := strings.NewReplacer("$instance", ".*", "$namespace", ".*", "$pod", ".*", "$device", ".*", "$__rate_interval", "2m", "$__range", "10m")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			e := promExpr{Expr: variables.Replace(target.Expr), At: "10m"}
			if p.Type == "heatmap" {
				if heat++; target.Format != "heatmap" {
					t.Errorf("%s: the format is %q", p.Title, target.Format)
				}
				e.Samples = []promSample{{`{le="1e-06"}`, 2}, {`{le="2e-06"}`, 6}, {`{le="+Inf"}`, 8}}
			}
			test.Exprs = append(test.Exprs, e)
		}
	}
	if heat != 1 || len(test.Exprs) < 20 {
		t.Errorf("%d expressions, %d heat maps", len(test.Exprs), heat)
	}
	for _, bucket := range []struct {
		le   string
		step int
	}{{"1e-06", 1}, {"2e-06", 3}, {"+Inf", 4}} {
		test.Series = append(test.Series, promSeries{fmt.Sprintf(`gorxe_work_request_seconds_bucket{device="rxe0",instance="i",le=%q}`, bucket.le), fmt.Sprintf("0+%dx20", bucket.step)})
	}
	return test
}
