package daemon

import (
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// readings are what a counter of an adapter is made of.
type readings struct {
	engine  map[string]uint64 // by the engine's names
	packets map[wire.Opcode]uint64
	dev     *rxe.Device
	port    *rocev2.Counters
}

// mlx5Names are the counters of a RoCE port of mlx5, in the kernel's order
// (drivers/infiniband/hw/mlx5/counters.c: basic_q_cnts, out_of_seq_q_cnts, retrans_q_cnts,
// extended_err_cnts, cong_cnts). What they mean is in NVIDIA's "Understanding mlx5 Linux Counters".
//
// These are left out:
//   - resp_remote_access_errors: the engine counts them together with invalid requests
//   - roce_adp_retrans, roce_slow_restart and their like: gorxe has no adaptive retransmission
var mlx5Names = []struct {
	name string
	read func(*readings) uint64
}{
	{"rx_write_requests", requests(wire.RCWriteFirst, wire.RCWriteOnly, wire.RCWriteOnlyImm,
		wire.UCWriteFirst, wire.UCWriteOnly, wire.UCWriteOnlyImm, wire.XRCWriteFirst, wire.XRCWriteOnly, wire.XRCWriteOnlyImm)},
	{"rx_read_requests", requests(wire.RCReadRequest, wire.XRCReadRequest)},
	{"rx_atomic_requests", requests(wire.RCCompareSwap, wire.RCFetchAdd, wire.XRCCompareSwap, wire.XRCFetchAdd)},
	// a message that finds no receive: an RNR NAK on RC, a drop on UC and UD
	{"out_of_buffer", engineSum("send_rnr_err", "drop_no_recv_wqe")},
	{"out_of_sequence", engineSum("out_of_seq_request")},
	{"duplicate_request", engineSum("duplicate_request")},
	{"rnr_nak_retry_err", engineSum("rcvd_rnr_err")},
	{"packet_seq_err", engineSum("rcvd_seq_err")},
	{"implied_nak_seq_err", engineSum("retry_implied_nak")},
	{"local_ack_timeout_err", engineSum("ack_timeout")},
	{"resp_local_length_error", failed(true, rxe.WCLocLenErr)},
	{"resp_cqe_error", failed(true, anyStatus...)}, // flushed ones are among them, as on adapters
	{"req_cqe_error", failed(false, anyStatus...)},
	{"req_remote_invalid_request", failed(false, rxe.WCRemInvReqErr)},
	{"req_remote_access_errors", failed(false, rxe.WCRemAccessErr)},
	{"resp_cqe_flush_error", failed(true, rxe.WCFlushErr)},
	{"req_cqe_flush_error", failed(false, rxe.WCFlushErr)},
	{"req_transport_retries_exceeded", engineSum("retry_exceeded_err")},
	{"req_rnr_retries_exceeded", engineSum("retry_rnr_exceeded_err")},
	{"rp_cnp_ignored", engineSum("rp_cnp_ignored")},
	{"rp_cnp_handled", engineSum("rp_cnp_handled")},
	{"np_ecn_marked_roce_packets", engineSum("np_ecn_marked_roce_packets")},
	{"np_cnp_sent", engineSum("np_cnp_sent")},
	{"rx_icrc_encapsulated", func(r *readings) uint64 { return r.port.ICRCErrors.Load() + r.engine["drop_bad_icrc"] }},
}

// anyStatus are the statuses of completions with an error.
var anyStatus = func() (list []rxe.WCStatus) {
	for s := rxe.WCSuccess + 1; s <= rxe.WCGeneralErr; s++ {
		list = append(list, s)
	}
	return list
}()

// mlx5Counters returns the counters of an adapter.
func mlx5Counters(dev *rxe.Device, p *rocev2.Counters) []rxe.Counter {
	r := readings{engine: make(map[string]uint64), packets: make(map[wire.Opcode]uint64), dev: dev, port: p}
	for _, c := range dev.Counters() {
		r.engine[c.Name] = c.Value
	}
	for _, c := range dev.PacketCounts() {
		r.packets[c.Opcode] = c.Received
	}
	list := make([]rxe.Counter, len(mlx5Names))
	for i, n := range mlx5Names {
		list[i] = rxe.Counter{Name: n.name, Value: n.read(&r)}
	}
	return list
}

// engineSum is the sum of counters of the engine.
func engineSum(names ...string) func(*readings) uint64 {
	return func(r *readings) (n uint64) {
		for _, name := range names {
			n += r.engine[name]
		}
		return n
	}
}

// requests counts the requests that begin with packets of these opcodes.
func requests(opcodes ...wire.Opcode) func(*readings) uint64 {
	return func(r *readings) (n uint64) {
		for _, o := range opcodes {
			n += r.packets[o]
		}
		return n
	}
}

// failed counts work requests that completed with these errors: receives, or others.
func failed(receives bool, statuses ...rxe.WCStatus) func(*readings) uint64 {
	return func(r *readings) (n uint64) {
		for _, s := range statuses {
			n += r.dev.FailedWork(receives, s)
		}
		return n
	}
}
