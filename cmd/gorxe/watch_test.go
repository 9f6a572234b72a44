package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/explain"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestWatch: a line for each thing that comes, changes or goes, and for nothing else.
func TestWatch(t *testing.T) {
	var w watching
	var out strings.Builder
	at := time.Date(2030, 1, 2, 3, 4, 5, 6e6, time.UTC)
	look := func(st *proto.Status, failed []proto.Errors, want ...string) {
		t.Helper()
		out.Reset()
		for _, o := range w.look(st, failed, at) {
			if err := (watchCmd{}).print(&out, &o); err != nil {
				t.Fatal(err)
			}
		}
		full := ""
		for _, s := range want {
			full += "2030-01-02T03:04:05.006Z " + s + "\n"
		}
		if out.String() != full {
			t.Errorf("got\n%swant\n%s", out.String(), full)
		}
	}
	st := topStatus(map[string]uint64{"retransmits": 5})
	st.Sessions[0].ID, st.Sessions[0].Command = 3, []string{"./test\u202e", "x"}
	look(st, nil, "session 3: ./test? x", "process 4194303: ib_write_bw?[2J", "process 4194303 rxe0 queue pair 0xfffff0: RTS")
	look(st, nil)
	later := topStatus(map[string]uint64{"retransmits": 7})
	later.Sessions[0].ID, later.Sessions[0].Command = 3, st.Sessions[0].Command
	later.Devices[0].Counters["drop_bad_qpn"] = 9
	st.FaultsFired, later.FaultsFired = []fault.Hits{{Where: "packet", What: "drop", Fired: 1}, {Where: "verb", What: "fail"}}, []fault.Hits{{Where: "packet", What: "drop", Fired: 4}, {Where: "verb", What: "fail"}}
	look(st, nil)
	later.Sessions[0].Processes[0].Files[0].QPs[0].State = "ERR"
	failed := []proto.Errors{{Session: 3, Errors: []explain.Record{{Time: at, PID: 7, Device: "rxe0", QPN: 0x11, Kind: explain.Completion, What: "it failed"}}}}
	text := failed[0].Errors[0].String()
	look(later, failed, "process 4194303 rxe0 queue pair 0xfffff0: RTS to ERR", "process 4194303 rxe0 queue pair 0xfffff0: retransmits +2",
		"device rxe0: drop_bad_qpn +4", "fault: packet drop +3", "error process 7 rxe0 queue pair 0x000011: "+text)
	look(later, failed)
	look(&proto.Status{}, nil, "process 4194303: gone, was ib_write_bw?[2J", "process 4194303 rxe0 queue pair 0xfffff0: gone, was ERR", "session 3: gone, was ./test? x")

	out.Reset()
	if err := (watchCmd{JSON: true}).print(&out, &occurrence{Time: at, Kind: "error", QP: "0x000011", Text: "\x1b"}); err != nil {
		t.Fatal(err)
	}
	var o occurrence
	if err := json.Unmarshal([]byte(out.String()), &o); err != nil || o.QP != "0x000011" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v, %q", err, out.String())
	}
	if code, _, stderr := gorxe(t, "watch", "--socket", "/no/such/socket"); code != exitFailed || !strings.Contains(stderr, "gorxe daemon") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestWatchCount: watch and top end after a number of reports of a daemon that answers.
func TestWatchCount(t *testing.T) {
	socket := fakeDaemon(t, topStatus(map[string]uint64{"sent_packets": 1}))
	if code, stdout, stderr := gorxe(t, "top", "--socket", socket, "--count", "2", "--interval", "1ms", "--json"); code != exitOK || strings.Count(stdout, "\n") != 2 {
		t.Errorf("top: exit code %d, %q, %s", code, stdout, stderr)
	}
	if code, stdout, stderr := gorxe(t, "watch", "--socket", socket, "--count", "2", "--interval", "1ms"); code != exitOK || strings.Count(stdout, "\n") != 3 {
		t.Errorf("watch: exit code %d, %q, %s", code, stdout, stderr)
	}
	if code, _, stderr := gorxe(t, "watch", "--count", "-1"); code != exitUsage || !strings.Contains(stderr, "--count") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
