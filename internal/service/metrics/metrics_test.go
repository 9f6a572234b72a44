package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// example has a device with two programs, of which one has opened it twice.
func example() *proto.Status {
	file := func(queued uint64, waiting int) proto.FileStatus {
		return proto.FileStatus{Device: "rxe0", MRBytes: 4096, CQs: []proto.CQStatus{{Entries: 16, Waiting: waiting}, {Entries: 0, Waiting: 0}},
			Fill: proto.QueueFill{Send: proto.Fill{Used: queued, Size: 32}, Recv: proto.Fill{Used: 1, Size: 8},
				SRQ: proto.Fill{Used: 2, Size: 100}, CQ: proto.Fill{Used: uint64(waiting), Size: 16}}}
	}
	return &proto.Status{
		FaultsFired: []fault.Hits{{Where: "packet", What: "drop", Fired: 3}, {Where: "verb", What: "fail"}},
		Devices: []proto.DeviceStatus{{
			Name: "rxe0", GUID: "0011", Objects: map[string]int{"qp": 6},
			Counters:     map[string]uint64{"sent_pkts": 7, "retry_rnr_nak": 2, "retry_exceeded_err": 1, "drop_bad_qpn": 5, "link_downed": 1, "mad_rcvd": 4},
			Packets:      map[string]proto.PacketCount{"RC_SEND_ONLY": {Sent: 3, Received: 2}, "RC_ACKNOWLEDGE": {Received: 4}},
			WorkRequests: map[string]uint64{"SEND": 3, "RECV": 2},
			Latency:      &proto.LatencyStatus{Sample: 16, Buckets: []uint64{1, 0, 2, 4}, Seconds: 0.5},
			Ports: []proto.PortStatus{{Number: 1, Interface: "eth0", State: "PORT_ACTIVE", ActiveMTU: 1024, SpeedGbps: 2.5,
				Counters: map[string]uint64{"sent_pkts": 6, "rcvd_bytes": 600, "send_calls": 2, "icrc_errors": 9, "receive_queue_drop": 8, "receive_errors": 1}}},
		}, {Name: "rxe1", Ports: []proto.PortStatus{{Number: 1, State: "PORT_DOWN"}}}},
		Sessions: []proto.SessionStatus{{Processes: []proto.ProcessStatus{
			{Files: []proto.FileStatus{file(3, 4), file(0, 8)}},
			{Files: []proto.FileStatus{file(1, 2), {Device: "gone"}}},
		}}, {}},
	}
}

const want = `
gorxe_device_info{device="rxe0",node_guid="0011"} 1
gorxe_device_info{device="rxe1",node_guid=""} 1
gorxe_dropped_packets_total{device="rxe0",reason="bad_qpn"} 5
gorxe_dropped_packets_total{device="rxe0",reason="port_icrc_errors"} 9
gorxe_dropped_packets_total{device="rxe0",reason="port_receive_queue_drop"} 8
gorxe_events_total{device="rxe0",event="link_downed"} 1
gorxe_events_total{device="rxe0",event="mad_rcvd"} 4
gorxe_events_total{device="rxe0",event="port_receive_errors"} 1
gorxe_faults_fired_total{what="drop",where="packet"} 3
gorxe_faults_fired_total{what="fail",where="verb"} 0
gorxe_fullest_cq_ratio{device="rxe0"} 0.5
gorxe_fullest_cq_ratio{device="rxe1"} 0
gorxe_network_bytes_total{device="rxe0",direction="received",port="1"} 600
gorxe_network_calls_total{device="rxe0",direction="sent",port="1"} 2
gorxe_network_packets_total{device="rxe0",direction="sent",port="1"} 6
gorxe_objects{device="rxe0",kind="qp"} 6
gorxe_operations_total{device="rxe0",opcode="RECV"} 2
gorxe_operations_total{device="rxe0",opcode="SEND"} 3
gorxe_packets_total{device="rxe0",direction="sent"} 7
gorxe_port_active_mtu_bytes{device="rxe0",port="1"} 1024
gorxe_port_active_mtu_bytes{device="rxe1",port="1"} 0
gorxe_port_rate_bytes_per_second{device="rxe0",port="1"} 3.125e+08
gorxe_port_rate_bytes_per_second{device="rxe1",port="1"} 0
gorxe_port_up{device="rxe0",interface="eth0",port="1"} 1
gorxe_port_up{device="rxe1",interface="",port="1"} 0
gorxe_processes{device="rxe0"} 2
gorxe_processes{device="rxe1"} 0
gorxe_qp_packets_total{device="rxe0",direction="received",opcode="RC_ACKNOWLEDGE"} 4
gorxe_qp_packets_total{device="rxe0",direction="received",opcode="RC_SEND_ONLY"} 2
gorxe_qp_packets_total{device="rxe0",direction="sent",opcode="RC_ACKNOWLEDGE"} 0
gorxe_qp_packets_total{device="rxe0",direction="sent",opcode="RC_SEND_ONLY"} 3
gorxe_queue_entries{device="rxe0",queue="completion"} 48
gorxe_queue_entries{device="rxe0",queue="receive"} 24
gorxe_queue_entries{device="rxe0",queue="send"} 96
gorxe_queue_entries{device="rxe0",queue="shared_receive"} 300
gorxe_queue_entries{device="rxe1",queue="completion"} 0
gorxe_queue_entries{device="rxe1",queue="receive"} 0
gorxe_queue_entries{device="rxe1",queue="send"} 0
gorxe_queue_entries{device="rxe1",queue="shared_receive"} 0
gorxe_queue_used_entries{device="rxe0",queue="completion"} 14
gorxe_queue_used_entries{device="rxe0",queue="receive"} 3
gorxe_queue_used_entries{device="rxe0",queue="send"} 4
gorxe_queue_used_entries{device="rxe0",queue="shared_receive"} 6
gorxe_queue_used_entries{device="rxe1",queue="completion"} 0
gorxe_queue_used_entries{device="rxe1",queue="receive"} 0
gorxe_queue_used_entries{device="rxe1",queue="send"} 0
gorxe_queue_used_entries{device="rxe1",queue="shared_receive"} 0
gorxe_registered_memory_bytes{device="rxe0"} 12288
gorxe_registered_memory_bytes{device="rxe1"} 0
gorxe_retransmissions_total{cause="rnr_nak",device="rxe0"} 2
gorxe_retries_exhausted_total{device="rxe0",limit="retry_cnt"} 1
gorxe_sessions 2
gorxe_work_request_seconds_bucket{device="rxe0",le="1e-06"} 1
gorxe_work_request_seconds_bucket{device="rxe0",le="2e-06"} 1
gorxe_work_request_seconds_bucket{device="rxe0",le="4e-06"} 3
gorxe_work_request_seconds_bucket{device="rxe0",le="+Inf"} 7
gorxe_work_request_seconds_sum{device="rxe0"} 0.5
gorxe_work_request_seconds_count{device="rxe0"} 7
`

func TestCollector(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{example})
	text, err := scrape(registry)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			got.WriteString(line)
		}
	}
	if got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s", got.String())
	}
	// The linter of Prometheus judges names, units and help.
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// scrape returns the metrics of the example as Prometheus reads them.
func scrape(registry *prometheus.Registry) (string, error) {
	families, err := registry.Gather()
	if err != nil {
		return "", err
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	text, err := testutil.GatherAndFormat(registry, expfmt.TypeTextPlain, names...)
	return string(text), err
}

func get(t *testing.T, url, accept string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	client := http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func TestServer(t *testing.T) {
	ln := listen(t)
	s := Serve(ln, example, nil)
	url := "http://" + ln.Addr().String()
	status, text := get(t, url+"/metrics", "application/openmetrics-text; version=1.0.0")
	for _, part := range []string{"gorxe_build_info{", "gorxe_sessions 2", "go_goroutines ", "process_open_fds ", "\n# EOF\n"} {
		if status != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("status %d, no %q", status, part)
		}
	}
	if status, _ := get(t, url+"/secret", ""); status != http.StatusNotFound {
		t.Errorf("/secret is %d", status)
	}
	if _, err := Listen(ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "is in use: choose another port") {
		t.Errorf("a taken address: %v", err)
	}
	s.Close()
	if conn, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		conn.Close()
		t.Error("it listens after Close")
	}
}

func TestAddress(t *testing.T) {
	for _, address := range []string{"", "nonsense", "127.0.0.1", "127.0.0.1:port:1", "192.0.2.1:9879"} {
		ln, err := Listen(address)
		if err == nil {
			if ln.Close(); address != "" {
				t.Errorf("%q was taken", address)
			}
			continue
		}
		if !strings.Contains(err.Error(), "HOST:PORT is needed") || !strings.Contains(err.Error(), address) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Two are answered at once. Others wait for their turn, also those that find no room for their
// connection, and none is refused before the limit. Close does not wait for those that read
// nothing.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes, 1)
		var entered atomic.Int32
		release := make(chan struct{})
		s := Serve(ln, func() *proto.Status {
			entered.Add(1)
			<-release
			return example()
		}, nil)
		ask := func() net.Conn {
			server, client := net.Pipe()
			ln <- server
			go fmt.Fprint(client, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
			synctest.Wait()
			return client
		}
		answer := func(client net.Conn) int {
			response, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Errorf("no answer: %v", err)
				return 0
			}
			return response.StatusCode
		}
		var clients []net.Conn
		for range maxConnections + 1 {
			clients = append(clients, ask())
		}
		if n := entered.Load(); n != maxAnswers {
			t.Errorf("%d are answered at once", n)
		}
		go func() {
			for range clients {
				release <- struct{}{}
			}
		}()
		for i, client := range clients {
			if status := answer(client); status != http.StatusOK {
				t.Errorf("client %d of %d is answered with %d", i, len(clients), status)
			}
			client.Close()
		}
		for range maxAnswers {
			ask()
		}
		late := ask()
		if status := answer(late); status != http.StatusServiceUnavailable {
			t.Errorf("a client that has waited too long is answered with %d", status)
		}
		close(release)
		s.Close()
	})
}

// pipes is a listener. A test sends its connections.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A connection too many takes the place of the oldest that is not being answered, so clients that
// send nothing keep nobody out. One whose client sends or reads nothing ends.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes)
		s := Serve(ln, example, nil)
		connect := func(send string) net.Conn {
			server, client := net.Pipe()
			ln <- server
			fmt.Fprint(client, send)
			synctest.Wait()
			return client
		}
		ended := func(client net.Conn) bool {
			client.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // of a pipe
			_, err := io.Copy(io.Discard, client)
			return err == nil // until its end
		}
		const request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
		unread := connect(request)
		var slow []net.Conn
		for range 60 {
			slow = append(slow, connect(request[:20]))
		}
		for i, client := range slow {
			if kept := i >= len(slow)-(maxConnections-1); ended(client) == kept {
				t.Errorf("slow client %d of %d: kept %v, want %v", i, len(slow), !kept, kept)
			}
		}
		for range 10 {
			response, err := http.ReadResponse(bufio.NewReader(connect(request)), nil)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("an honest client: %v, %v", response, err)
			}
		}
		time.Sleep(requestLimit + time.Second)
		if !ended(slow[len(slow)-1]) {
			t.Error("a client that sends nothing more is kept")
		}
		time.Sleep(answerLimit)
		if !ended(unread) {
			t.Error("a client that did not read its answer is kept")
		}
		s.Close()
	})
}

// A client has a moment for its request, however many come after it.
func TestMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(pipes)
		s := Serve(ln, example, nil)
		connect := func() net.Conn {
			server, client := net.Pipe()
			ln <- server
			return client
		}
		honest := connect()
		var late sync.WaitGroup
		for range 60 {
			late.Go(func() { connect() })
		}
		time.Sleep(moment / 2)
		go fmt.Fprint(honest, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") // it may be closed
		response, err := http.ReadResponse(bufio.NewReader(honest), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("the honest client: %v, %v", response, err)
		}
		late.Wait()
		s.Close()
	})
}

// A daemon that knows no device has metrics, too.
func TestEmpty(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{func() *proto.Status { return new(proto.Status) }})
	text, err := scrape(registry)
	if err != nil || !regexp.MustCompile(`(?m)^gorxe_sessions 0$`).MatchString(text) {
		t.Errorf("%v\n%s", err, text)
	}
}
