// Package metrics serves what daemons count to Prometheus, as `gorxe daemon --metrics` and `gorxe
// metrics` do.
//
// Names and units follow the conventions of Prometheus (prometheus.io/docs/practices/naming).
// A metric is labeled with its device and, in a container, with that, and never with a program, a
// user or an address: those are unbounded.
package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

// collector makes metrics from the status of a daemon.
type collector struct {
	status func() *proto.Status
}

// Describe implements prometheus.Collector. It describes nothing, because the labels of
// counters follow from the status: the collector is an unchecked one.
func (collector) Describe(chan<- *prometheus.Desc) {}

// family is one metric with its labels.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("gorxe_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc("gorxe_"+name, help, labels, nil), prometheus.GaugeValue}
}

var (
	deviceInfo = gauge("device_info", "A device. The value is 1.", "device", "node_guid")
	objects    = gauge("objects", "Objects of all programs: pd, mr, mw, cq, srq, qp, ah.", "device", "kind")
	packets    = counter("packets_total", "Packets of a device, also those between its own queue pairs.", "device", "direction")
	byOpcode   = counter("qp_packets_total", "Packets that queue pairs sent, and that they accepted, by the opcode of the BTH. What was sent again counts again.", "device", "direction", "opcode")
	operations = counter("operations_total", "Work requests that completed with success, by opcode.", "device", "opcode")
	retries    = counter("retransmissions_total", "Times that a requester went back and sent again, by cause.", "device", "cause")
	exhausted  = counter("retries_exhausted_total", "Work requests that failed because a queue pair had no retries left, by the limit.", "device", "limit")
	drops      = counter("dropped_packets_total", "Packets that were dropped or refused, by reason.", "device", "reason")
	events     = counter("events_total", "All other events that a device counts, by the name in hw_counters and gorxe status.", "device", "event")

	took = prometheus.NewDesc("gorxe_work_request_seconds", "How long send work requests took that succeeded, from their first packet to their completion. One in 16 of each queue pair is timed.", []string{"device"}, nil)

	faultsFired = counter("faults_fired_total", "Hits of fault rules of all programs, by the place and the fault.", "where", "what")

	portUp     = gauge("port_up", "1 if the port is active.", "device", "port", "interface")
	portRate   = gauge("port_rate_bytes_per_second", "Speed of the port as programs see it.", "device", "port")
	portMTU    = gauge("port_active_mtu_bytes", "Largest path MTU of the port.", "device", "port")
	netPackets = counter("network_packets_total", "Packets of the port's sockets.", "device", "port", "direction")
	netBytes   = counter("network_bytes_total", "Bytes of these packets, from the BTH to the ICRC.", "device", "port", "direction")
	netCalls   = counter("network_calls_total", "System calls that sent or received them.", "device", "port", "direction")
	sessions   = gauge("sessions", "Runs of gorxe run that are attached.")
	processes  = gauge("processes", "Processes that have a device open.", "device")
	memory     = gauge("registered_memory_bytes", "Size of all memory regions.", "device")
	queueUsed  = gauge("queue_used_entries", "Entries in use, of all queues of a kind: work requests that are not completed, completions that are not polled.", "device", "queue")
	queueSize  = gauge("queue_entries", "Entries that all queues of a kind have.", "device", "queue")
	cqFill     = gauge("fullest_cq_ratio", "Share of the fullest completion queue that is in use, 0 to 1.", "device")
)

// directions are the counters of packets: the device's, and those of its port's sockets.
var (
	devicePackets = map[string]string{"sent_pkts": "sent", "rcvd_pkts": "received"}
	deviceRetries = map[string]string{
		"retry_timeout": "timeout", "retry_sequence_nak": "sequence_nak", "retry_implied_nak": "implied_nak", "retry_rnr_nak": "rnr_nak",
	}
	// deviceLimits are rdma_rxe's names, and the attributes of the queue pair.
	deviceLimits = map[string]string{"retry_exceeded_err": "retry_cnt", "retry_rnr_exceeded_err": "rnr_retry"}
	portPackets  = devicePackets
	portBytes    = map[string]string{"sent_bytes": "sent", "rcvd_bytes": "received"}
	portCalls    = map[string]string{"send_calls": "sent", "receive_calls": "received"}
	// portDrops are the port's drops whose names do not say so.
	portDrops = []string{"icrc_errors", "malformed", "truncated"}
)

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	st := c.status()
	e.devices(st)
	e.programs(st)
}

// emitter sends metrics to the registry.
type emitter struct{ out chan<- prometheus.Metric }

func (e emitter) emit(f family, value float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

func (e emitter) devices(st *proto.Status) {
	for _, d := range st.Devices {
		e.device(d)
	}
	for _, h := range st.FaultsFired {
		e.emit(faultsFired, float64(h.Fired), h.Where, h.What)
	}
}

func (e emitter) device(d proto.DeviceStatus) {
	e.emit(deviceInfo, 1, d.Name, d.GUID)
	for kind, n := range d.Objects {
		e.emit(objects, float64(n), d.Name, kind)
	}
	for name, n := range d.Counters {
		v := float64(n)
		switch {
		case devicePackets[name] != "":
			e.emit(packets, v, d.Name, devicePackets[name])
		case deviceRetries[name] != "":
			e.emit(retries, v, d.Name, deviceRetries[name])
		case deviceLimits[name] != "":
			e.emit(exhausted, v, d.Name, deviceLimits[name])
		case strings.HasPrefix(name, "drop_"):
			e.emit(drops, v, d.Name, strings.TrimPrefix(name, "drop_"))
		default:
			e.emit(events, v, d.Name, name)
		}
	}
	for opcode, n := range d.Packets {
		e.emit(byOpcode, float64(n.Sent), d.Name, "sent", opcode)
		e.emit(byOpcode, float64(n.Received), d.Name, "received", opcode)
	}
	for opcode, n := range d.WorkRequests {
		e.emit(operations, float64(n), d.Name, opcode)
	}
	for _, p := range d.Ports {
		e.port(d.Name, p)
	}
	e.latency(d.Name, d.Latency)
}

// maxBuckets bounds the buckets of a hostile daemon of a container.
const maxBuckets = 64

// latency emits a histogram, whose buckets each count all that is shorter.
func (e emitter) latency(device string, l *proto.LatencyStatus) {
	if l == nil || len(l.Buckets) == 0 || len(l.Buckets) > maxBuckets {
		return
	}
	upTo, n := make(map[float64]uint64), uint64(0)
	for i, k := range l.Buckets {
		if n += k; i < len(l.Buckets)-1 {
			upTo[math.Ldexp(1e-6, i)] = n
		}
	}
	e.out <- prometheus.MustNewConstHistogram(took, n, l.Seconds, upTo, device)
}

func (e emitter) port(device string, p proto.PortStatus) {
	number := strconv.Itoa(p.Number)
	up := 0.0
	if p.State == rocev2.PortActive.String() {
		up = 1
	}
	e.emit(portUp, up, device, number, p.Interface)
	e.emit(portRate, p.SpeedGbps*1e9/8, device, number)
	e.emit(portMTU, float64(p.ActiveMTU), device, number)
	for name, n := range p.Counters {
		v := float64(n)
		switch {
		case portPackets[name] != "":
			e.emit(netPackets, v, device, number, portPackets[name])
		case portBytes[name] != "":
			e.emit(netBytes, v, device, number, portBytes[name])
		case portCalls[name] != "":
			e.emit(netCalls, v, device, number, portCalls[name])
		case slices.Contains(portDrops, name), strings.Contains(name, "drop"):
			e.emit(drops, v, device, "port_"+name)
		default:
			e.emit(events, v, device, "port_"+name)
		}
	}
}

// use is what the programs have of one device.
type use struct {
	processes int
	memory    uint64
	fill      proto.QueueFill
	fullest   float64
}

func (e emitter) programs(st *proto.Status) {
	e.emit(sessions, float64(len(st.Sessions)))
	uses := make(map[string]*use)
	for _, d := range st.Devices {
		uses[d.Name] = new(use)
	}
	for _, s := range st.Sessions {
		for _, p := range s.Processes {
			open := make(map[*use]struct{}) // a process may open a device several times
			for _, f := range p.Files {
				if u := uses[f.Device]; u != nil {
					u.add(f)
					open[u] = struct{}{}
				}
			}
			for u := range open {
				u.processes++
			}
		}
	}
	for name, u := range uses {
		e.emit(processes, float64(u.processes), name)
		e.emit(memory, float64(u.memory), name)
		for kind, f := range map[string]proto.Fill{"send": u.fill.Send, "receive": u.fill.Recv, "shared_receive": u.fill.SRQ, "completion": u.fill.CQ} {
			e.emit(queueUsed, float64(f.Used), name, kind)
			e.emit(queueSize, float64(f.Size), name, kind)
		}
		e.emit(cqFill, u.fullest, name)
	}
}

func (u *use) add(f proto.FileStatus) {
	u.memory += f.MRBytes
	add(&u.fill.Send, f.Fill.Send)
	add(&u.fill.Recv, f.Fill.Recv)
	add(&u.fill.SRQ, f.Fill.SRQ)
	add(&u.fill.CQ, f.Fill.CQ)
	for _, q := range f.CQs {
		if q.Entries > 0 {
			u.fullest = max(u.fullest, float64(q.Waiting)/float64(q.Entries))
		}
	}
}

func add(to *proto.Fill, f proto.Fill) {
	to.Used += f.Used
	to.Size += f.Size
}
