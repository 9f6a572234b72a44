package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestMetrics: the daemon serves what programs did, and says at its start when the address is
// taken.
func TestMetrics(t *testing.T) {
	need(t, "ib_write_bw", "ibv_rc_pingpong")
	if !selection.takes(core) {
		return
	}
	const address = "127.0.0.1:9879"
	h, _ := twoHosts(t, 1500)
	d := startDaemon(t, h, "--device", "rxe0=eth0", "--metrics", address)
	server := d.run(t, "ib_write_bw", "-F", "-d", "rxe0", "-x", "1", "-n", "20", "-u", "20")
	server.listening(18515)
	d.run(t, "ib_write_bw", "-F", "-d", "rxe0", "-x", "1", "-n", "20", "-u", "20", h.addr).ok()
	server.ok()
	metrics := scrape(t, h, address)
	for name, want := range map[string]func(value string) bool{
		`gorxe_packets_total{device="rxe0",direction="sent"}`:                                  func(v string) bool { return v != "0" && v != "" },
		`gorxe_qp_packets_total{device="rxe0",direction="sent",opcode="RC_RDMA_WRITE_MIDDLE"}`: func(v string) bool { return v != "0" && v != "" },
		`gorxe_operations_total{device="rxe0",opcode="RDMA_WRITE"}`:                            func(v string) bool { return v == "20" },
		`gorxe_queue_entries{device="rxe0",queue="completion"}`:                                func(v string) bool { return v == "0" },
		`gorxe_retransmissions_total{cause="sequence_nak",device="rxe0"}`:                      func(v string) bool { return v == "0" },
		`gorxe_dropped_packets_total{device="rxe0",reason="bad_access"}`:                       func(v string) bool { return v == "0" },
		`gorxe_port_up{device="rxe0",interface="eth0",port="1"}`:                               func(v string) bool { return v == "1" },
		`gorxe_objects{device="rxe0",kind="qp"}`:                                               func(v string) bool { return v == "0" },
	} {
		if !want(metrics[name]) {
			t.Errorf("%s is %q", name, metrics[name])
		}
	}
	// The server of a ping-pong posts 500 receives before it listens.
	pong := d.run(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "10")
	pong.listening(18515)
	if got := scrape(t, h, address)[`gorxe_queue_used_entries{device="rxe0",queue="receive"}`]; got != "500" {
		t.Errorf("receives in use: %q", got)
	}
	d.run(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "10", h.addr).ok()
	pong.ok()
	second := start(t, h, nil, gorxe, "daemon", "--socket", d.socket+"2", "--device", "rxe0=lo", "--metrics", address)
	if code := second.wait(); code != 1 || !strings.Contains(second.out.String(), "--metrics: address "+address+" is in use") {
		t.Errorf("a taken address: exit code %d\n%s", code, second.describe())
	}
}

// scrape returns the metrics by name and labels.
func scrape(t *testing.T, h *host, address string) map[string]string {
	t.Helper()
	metrics := make(map[string]string)
	for line := range strings.Lines(scrapeText(t, h, address)) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "} "); ok {
			metrics[name+"}"] = value
		}
	}
	return metrics
}

// scrapeText returns what is served.
func scrapeText(t *testing.T, h *host, address string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (conn net.Conn, err error) {
		err = h.net.Do(func() (err error) { conn, err = net.Dial("tcp", address); return err })
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s: %v", resp.Status, err)
	}
	return string(text)
}
