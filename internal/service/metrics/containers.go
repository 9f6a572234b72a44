package metrics

import (
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gorxe/gorxe/internal/service/proto"
)

var (
	containerInfo = gauge("container_info", "A container that may have a device. The value is 1.")
	daemons       = gauge("daemons", "Daemons of containers, by what they say: answered, or silent.", "state")
)

// Ask returns what the daemons of containers have, and an error for each that does not say it.
type Ask func() ([]proto.PodStatus, []error)

// ServeContainers is Serve for all containers of a host.
func ServeContainers(ln net.Listener, ask Ask, logger *slog.Logger) *Server {
	return serve(ln, containers{ask, logger}, logger)
}

// containers makes metrics from the status of daemons of containers.
type containers struct {
	ask Ask
	log *slog.Logger
}

// Describe implements prometheus.Collector, as collector's does.
func (containers) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. What belongs to a device has the labels of its pod. What
// belongs to programs has their container, too.
func (c containers) Collect(out chan<- prometheus.Metric) {
	pods, errs := c.ask()
	for _, err := range errs {
		c.log.Warn("a daemon of containers does not say what it has", "error", err)
	}
	e := emitter{out}
	e.emit(daemons, float64(len(pods)), "answered")
	e.emit(daemons, float64(len(errs)), "silent")
	// A pod may have two daemons for a moment: one ends, and its successor counts.
	slices.SortStableFunc(pods, func(a, b proto.PodStatus) int { return started(b).Compare(started(a)) })
	seen := make(map[proto.Place]bool)
	for _, p := range pods {
		pod := proto.Place{Namespace: p.Namespace, Pod: p.Pod}
		if p.Status != nil && !seen[pod] {
			seen[pod] = true
			e.of(pod, func(e emitter) { e.devices(p.Status) })
		}
		for _, place := range p.Containers {
			if seen[place] {
				continue
			}
			seen[place] = true
			e.of(place, func(e emitter) {
				e.emit(containerInfo, 1)
				if p.Status != nil {
					e.programs(within(p.Status, place))
				}
			})
		}
	}
}

// started says when a daemon had its devices; the zero time if it has none.
func started(p proto.PodStatus) time.Time {
	if p.Status == nil {
		return time.Time{}
	}
	return p.Status.Started
}

// within is a status with the sessions of one container only.
func within(st *proto.Status, place proto.Place) *proto.Status {
	one := *st
	one.Sessions = nil
	for _, s := range st.Sessions {
		if s.Place == place {
			one.Sessions = append(one.Sessions, s)
		}
	}
	return &one
}

// part emits some metrics of a collector.
type part func(emitter)

// Describe implements prometheus.Collector, as collector's does.
func (part) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p part) Collect(out chan<- prometheus.Metric) { p(emitter{out}) }

// of emits with the labels of a pod, or of one of its containers.
func (e emitter) of(place proto.Place, p part) {
	labels := prometheus.Labels{"namespace": place.Namespace, "pod": place.Pod}
	if place.Container != "" {
		labels["container"] = place.Container
	}
	prometheus.WrapCollectorWith(labels, p).Collect(e.out)
}
