package e2e

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// portFaults are the rows of testdata/fault-outcomes.md about ports.
var portFaults = []struct{ rule, program, says string }{
	{"port down,scope=device", "ibv_devinfo -d rxe0", "PORT_DOWN (1)"},
	{"port down,scope=device", "cat /sys/class/infiniband/rxe0/ports/1/state", "1: DOWN"},
	{"port down,scope=device", "rdma link show rxe0/1", "state DOWN"},
	{"port gid_removed,gid=1,scope=device", "cat /sys/class/infiniband/rxe0/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"},
	{"port speed,gbps=100,scope=device", "cat /sys/class/infiniband/rxe0/ports/1/rate", "100 Gb/sec"},
}

// TestPortFaults: a stock program sees the port as a rule makes it, and without the rule as it is.
func TestPortFaults(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_devinfo", "rdma")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	for _, c := range portFaults {
		for _, with := range []bool{true, false} {
			args := []string{gorxe, "run"}
			if with {
				args = append(args, "--fault", c.rule)
			}
			p := start(t, d.host, d.env(), append(append(args, "--"), strings.Fields(c.program)...)...)
			if out := p.ok(); strings.Contains(out, c.says) != with {
				t.Errorf("%s, %v: %s", c.rule, with, out)
			}
		}
	}
}

// portEvents are the rows of testdata/fault-outcomes.md about the events that ibv_asyncwatch
// prints.
var portEvents = []struct {
	rule   string
	events []string
}{
	{"port down,time=20ms,times=3,scope=device", []string{"IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE", "IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE", "IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE"}},
	{"port gid_removed,gid=1,time=20ms,scope=device", []string{"IBV_EVENT_GID_CHANGE", "IBV_EVENT_GID_CHANGE"}},
	{"port speed,gbps=100,time=20ms,scope=device", []string{speedChange, speedChange}},
}

var asyncLine = regexp.MustCompile(`(?m)^ *event_type (.*) \((\d+)\), port 1$`)

// speedChange is event 20, for which rdma-core before 62 has no name.
const speedChange = "IBV_EVENT_DEVICE_SPEED_CHANGE"

// TestPortEvents: a program hears each change of the port, in order.
func TestPortEvents(t *testing.T) {
	need(t, "ibv_asyncwatch", "stdbuf")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	for _, c := range portEvents {
		watch := start(t, d.host, d.env(), gorxe, "run", "--", "stdbuf", "-oL", "ibv_asyncwatch", "-d", "rxe0")
		if !until(programLimit, func() bool { return watch.ended() || strings.Contains(watch.out.String(), "async event FD") }) || watch.ended() {
			t.Fatalf("ibv_asyncwatch does not start:\n%s", watch.out.String())
		}
		pid := strconv.Itoa(watch.cmd.Process.Pid)
		start(t, d.host, d.env(), gorxe, "fault", "add", "--pid", pid, c.rule).ok()
		var events []string
		until(programLimit, func() bool {
			events = nil
			for _, m := range asyncLine.FindAllStringSubmatch(watch.out.String(), -1) {
				if m[2] == "20" {
					m[1] = speedChange
				}
				events = append(events, m[1])
			}
			return len(events) >= len(c.events)
		})
		if !slices.Equal(events, c.events) {
			t.Errorf("%s: events %q, want %q\n%s", c.rule, events, c.events, watch.out.String())
		}
		if err := syscall.Kill(watch.cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		watch.wait()
	}
}
