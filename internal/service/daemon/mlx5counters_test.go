package daemon

import (
	"testing"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// kernelNames are the counters that `rdma statistic show` printed for a RoCE port of mlx5 on Linux
// 5.6, with those of Linux 6.2 behind them. false: gorxe leaves the counter out.
var kernelNames = map[string]bool{
	"rx_write_requests": true, "rx_read_requests": true, "rx_atomic_requests": true, "out_of_buffer": true,
	"out_of_sequence": true, "duplicate_request": true, "rnr_nak_retry_err": true, "packet_seq_err": true,
	"implied_nak_seq_err": true, "local_ack_timeout_err": true, "resp_local_length_error": true,
	"resp_cqe_error": true, "req_cqe_error": true, "req_remote_invalid_request": true,
	"req_remote_access_errors": true, "resp_remote_access_errors": false, "resp_cqe_flush_error": true,
	"req_cqe_flush_error": true, "roce_adp_retrans": false, "roce_adp_retrans_to": false,
	"roce_slow_restart": false, "roce_slow_restart_cnps": false, "roce_slow_restart_trans": false,
	"rp_cnp_ignored": true, "rp_cnp_handled": true, "np_ecn_marked_roce_packets": true, "np_cnp_sent": true,
	"rx_icrc_encapsulated": true,

	"req_transport_retries_exceeded": true, "req_rnr_retries_exceeded": true,
}

// TestMLX5Names: each counter has a name that the kernel has, and reads counters that the engine
// has.
func TestMLX5Names(t *testing.T) {
	spec := testSpec("mlx5_0")
	dev, _, err := engine.Describe(engineConfig(spec))
	must.OK(t, err)
	defer dev.Close() //nolint:errcheck // nothing was made in it
	has := make(map[string]bool)
	for _, c := range hwCounters(spec, dev, new(rocev2.Counters)) {
		if !kernelNames[c.Name] || has[c.Name] {
			t.Errorf("%s is no counter of mlx5, or is there twice", c.Name)
		}
		has[c.Name] = true
	}
	for name, want := range kernelNames {
		if want && !has[name] {
			t.Errorf("there is no %s", name)
		}
	}
	if list := hwCounters(proto.Spec{Name: "rxe0"}, dev, new(rocev2.Counters)); list[0].Name != "sent_pkts" {
		t.Errorf("rxe0 has %v", list)
	}
}

// TestMLX5Sources: a counter counts what its name says: each source alone, by one.
func TestMLX5Sources(t *testing.T) {
	dev, _, err := engine.Describe(engineConfig(testSpec("mlx5_0")))
	must.OK(t, err)
	defer dev.Close() //nolint:errcheck // nothing was made in it
	engineNames := make(map[string]uint64)
	for _, c := range dev.Counters() {
		engineNames[c.Name] = 0
	}
	for _, tt := range []struct{ source, counter string }{
		{"send_rnr_err", "out_of_buffer"}, {"drop_no_recv_wqe", "out_of_buffer"}, {"out_of_seq_request", "out_of_sequence"},
		{"duplicate_request", "duplicate_request"}, {"rcvd_rnr_err", "rnr_nak_retry_err"}, {"rcvd_seq_err", "packet_seq_err"},
		{"retry_implied_nak", "implied_nak_seq_err"}, {"ack_timeout", "local_ack_timeout_err"},
		{"retry_exceeded_err", "req_transport_retries_exceeded"}, {"retry_rnr_exceeded_err", "req_rnr_retries_exceeded"},
		{"rp_cnp_ignored", "rp_cnp_ignored"}, {"rp_cnp_handled", "rp_cnp_handled"},
		{"np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets"}, {"np_cnp_sent", "np_cnp_sent"}, {"drop_bad_icrc", "rx_icrc_encapsulated"},
	} {
		if _, ok := engineNames[tt.source]; !ok {
			t.Errorf("the engine has no %s", tt.source)
		}
		only(t, &readings{engine: map[string]uint64{tt.source: 1}, dev: dev, port: new(rocev2.Counters)}, tt.counter)
	}
	for opcode, counter := range map[wire.Opcode]string{
		wire.RCWriteFirst: "rx_write_requests", wire.UCWriteOnlyImm: "rx_write_requests", wire.RCReadRequest: "rx_read_requests",
		wire.XRCFetchAdd: "rx_atomic_requests", wire.RCWriteMiddle: "", wire.RCSendOnly: "",
	} {
		only(t, &readings{packets: map[wire.Opcode]uint64{opcode: 1}, dev: dev, port: new(rocev2.Counters)}, counter)
	}
	if anyStatus[0] != rxe.WCLocLenErr || len(anyStatus) != 21 {
		t.Errorf("statuses %v", anyStatus)
	}
}

// only requires that one counter is 1, and all others are 0.
func only(t *testing.T, r *readings, counter string) {
	t.Helper()
	for _, n := range mlx5Names {
		if got, want := n.read(r), n.name == counter; (got == 1) != want || got > 1 {
			t.Errorf("%v: %s is %d", *r, n.name, got)
		}
	}
}
