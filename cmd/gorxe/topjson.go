package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// topReport is one report of gorxe top --json. Rates are of a second.
type topReport struct {
	Time       time.Time   `json:"time"`
	Devices    []topDevice `json:"devices"`
	QueuePairs []topQP     `json:"queue_pairs"` // the busiest first
}

type topDevice struct {
	Name    string  `json:"name"`
	Packets float64 `json:"sent_packets_per_second"`
	Dropped float64 `json:"dropped_packets_per_second"`
}

type topQP struct {
	PID      int     `json:"pid"`
	Program  string  `json:"program"`
	Label    string  `json:"label,omitempty"`
	Device   string  `json:"device"`
	QP       string  `json:"qp"` // six hexadecimal digits
	Type     string  `json:"type"`
	State    string  `json:"state"`
	Queued   uint32  `json:"send_queue"`
	Sent     float64 `json:"sent_bytes_per_second"`
	Received float64 `json:"received_bytes_per_second"`
	Packets  float64 `json:"packets_per_second"`
	Lost     float64 `json:"lost_packets_per_second"`
}

// devices returns the rates of each device, also for queue pairs that are gone.
func (s *sample) devices(before *sample) []topDevice {
	list := []topDevice{}
	for i, d := range s.st.Devices {
		var from map[string]uint64
		seconds := s.at.Sub(s.st.Started).Seconds()
		if before != nil && i < len(before.st.Devices) {
			from, seconds = before.st.Devices[i].Counters, s.at.Sub(before.at).Seconds()
		}
		drops := 0.0
		for name, n := range d.Counters {
			if strings.HasPrefix(name, "drop_") {
				drops += float64(n - from[name])
			}
		}
		seconds = max(seconds, 1e-3)
		list = append(list, topDevice{d.Name, float64(d.Counters["sent_pkts"]-from["sent_pkts"]) / seconds, drops / seconds})
	}
	return list
}

// writeTopJSON prints a report as one line. It has all queue pairs, so it needs no height.
func writeTopJSON(w io.Writer, now, before *sample, v *topView) error {
	r := topReport{Time: now.at, Devices: now.devices(before), QueuePairs: []topQP{}}
	for _, q := range now.rows(before, v.sort) {
		r.QueuePairs = append(r.QueuePairs, topQP{
			q.key.pid, q.name, q.label, q.key.device, queuePair(q.key.qpn).String(), q.kind, q.state, q.queued, q.sent, q.received, q.packets, q.bad,
		})
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
