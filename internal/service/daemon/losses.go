package daemon

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/rxe"
)

// lossPeriod is how often the log names the packets that were lost.
const lossPeriod = time.Minute

// losses returns how many packets a device and its port have lost so far, by the name of the
// counter.
func losses(p *rocev2.Counters, device []rxe.Counter) map[string]uint64 {
	lost := make(map[string]uint64)
	for name, n := range p.All() {
		switch {
		case strings.Contains(name, "drop"), name == "icrc_errors", name == "malformed", name == "truncated":
			lost[name] = n
		}
	}
	for _, c := range device {
		if strings.HasPrefix(c.Name, "drop_") {
			lost[c.Name] = c.Value
		}
	}
	return lost
}

// reportLosses logs what each device has lost since the last report. Nothing is logged for a
// device that has lost nothing.
func (s *Server) reportLosses() {
	for _, d := range s.devices {
		now := losses(d.engine.Port().Counters(), d.engine.Device().Counters())
		if args := lossArgs(d.lost, now); len(args) > 0 {
			s.log.Warn("packets were lost", append([]any{"device", d.spec.Name}, args...)...)
		}
		d.lost = now
	}
}

// lossArgs returns the counters that grew, sorted by name, and by how much.
func lossArgs(before, now map[string]uint64) (args []any) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if n := now[name] - before[name]; n > 0 {
			args = append(args, name, n)
		}
	}
	return args
}
