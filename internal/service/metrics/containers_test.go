package metrics

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// Two pods have devices of one name, one pod has none yet, and one is followed by a pod of the same
// name. Programs count for their container.
func TestContainers(t *testing.T) {
	place := func(pod, container string) proto.Place {
		return proto.Place{Namespace: "default", Pod: pod, Container: container}
	}
	status := func(minute, packets int, of ...proto.Place) *proto.Status {
		st := &proto.Status{Started: time.Unix(int64(60*minute), 0), Devices: []proto.DeviceStatus{{Name: "rxe0", Counters: map[string]uint64{"sent_pkts": uint64(packets)}}}}
		for _, p := range of {
			st.Sessions = append(st.Sessions, proto.SessionStatus{Place: p, Processes: []proto.ProcessStatus{{Files: []proto.FileStatus{{Device: "rxe0", MRBytes: 4096}}}}})
		}
		return st
	}
	one, two, other := place("web", "server"), place("web", "client"), place("job", "server")
	pods := []proto.PodStatus{
		{Place: one, Containers: []proto.Place{one}, Status: status(1, 5)},
		{Place: one, Containers: []proto.Place{one, two}, Status: status(2, 7, one, one, two, place("web", "gone"))},
		{Place: other, Containers: []proto.Place{other}, Status: status(1, 9, other)},
		{Place: place("new", "c"), Containers: []proto.Place{place("new", "c")}},
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(containers{func() ([]proto.PodStatus, []error) { return pods, []error{errors.New("no answer")} }, slog.New(slog.DiscardHandler)})
	names := []string{"gorxe_container_info", "gorxe_daemons", "gorxe_packets_total", "gorxe_processes", "gorxe_registered_memory_bytes", "gorxe_sessions"}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP gorxe_container_info A container that may have a device. The value is 1.
# TYPE gorxe_container_info gauge
gorxe_container_info{container="c",namespace="default",pod="new"} 1
gorxe_container_info{container="client",namespace="default",pod="web"} 1
gorxe_container_info{container="server",namespace="default",pod="job"} 1
gorxe_container_info{container="server",namespace="default",pod="web"} 1
# HELP gorxe_daemons Daemons of containers, by what they say: answered, or silent.
# TYPE gorxe_daemons gauge
gorxe_daemons{state="answered"} 4
gorxe_daemons{state="silent"} 1
# HELP gorxe_packets_total Packets of a device, also those between its own queue pairs.
# TYPE gorxe_packets_total counter
gorxe_packets_total{device="rxe0",direction="sent",namespace="default",pod="job"} 9
gorxe_packets_total{device="rxe0",direction="sent",namespace="default",pod="web"} 7
# HELP gorxe_processes Processes that have a device open.
# TYPE gorxe_processes gauge
gorxe_processes{container="client",device="rxe0",namespace="default",pod="web"} 1
gorxe_processes{container="server",device="rxe0",namespace="default",pod="job"} 1
gorxe_processes{container="server",device="rxe0",namespace="default",pod="web"} 2
# HELP gorxe_registered_memory_bytes Size of all memory regions.
# TYPE gorxe_registered_memory_bytes gauge
gorxe_registered_memory_bytes{container="client",device="rxe0",namespace="default",pod="web"} 4096
gorxe_registered_memory_bytes{container="server",device="rxe0",namespace="default",pod="job"} 4096
gorxe_registered_memory_bytes{container="server",device="rxe0",namespace="default",pod="web"} 8192
# HELP gorxe_sessions Runs of gorxe run that are attached.
# TYPE gorxe_sessions gauge
gorxe_sessions{container="client",namespace="default",pod="web"} 1
gorxe_sessions{container="server",namespace="default",pod="job"} 1
gorxe_sessions{container="server",namespace="default",pod="web"} 2
`), names...); err != nil {
		t.Error(err)
	}
}
