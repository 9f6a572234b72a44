package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// topStatus is a daemon with queue pairs of one program, that have these counters.
func topStatus(counters ...map[string]uint64) *proto.Status {
	st := &proto.Status{Started: time.Unix(90, 0)}
	f := proto.FileStatus{Device: "rxe0"}
	for i, c := range counters {
		f.QPs = append(f.QPs, proto.QPStatus{QPN: 0xfffff0 + uint32(i), Type: "RC", State: "RTS", SendQueue: 32767, Counters: c})
	}
	st.Devices = []proto.DeviceStatus{{Name: "rxe0", Counters: map[string]uint64{"sent_pkts": counters[0]["sent_packets"], "drop_bad_qpn": 5}}}
	st.Sessions = []proto.SessionStatus{{Processes: []proto.ProcessStatus{{PID: 4194303, Name: "ib_write_bw\x1b[2J", Files: []proto.FileStatus{f}}}}}
	return st
}

func TestTop(t *testing.T) {
	before := newSample(topStatus(
		map[string]uint64{"sent_bytes": 100, "sent_packets": 1, "rcvd_packets": 1},
		map[string]uint64{"rcvd_bytes": 1 << 40}), time.Unix(100, 0))
	now := newSample(topStatus(
		map[string]uint64{"sent_bytes": 100 + 3<<30, "sent_packets": 1_000_001, "rcvd_packets": 3, "retransmits": 7, "dropped": 3},
		map[string]uint64{"rcvd_bytes": 5, "rcvd_packets": 8_000_000}), time.Unix(102, 0))
	for _, c := range []struct {
		before *sample
		height int
		want   string
	}{
		{before, 0, `, 1 program, 2 queue pairs; SENT and RCVD in Mbit/s
rxe0: 500k packets/s, 0 dropped/s

 PROCESS     PROGRAM DEVICE      QPN TYPE STATE QUEUED  SENT RCVD PKTS/S LOST/S
 4194303 ib_write_bw   rxe0 0xfffff1   RC   RTS  32767     0    0   4.0M      0
 4194303 ib_write_bw   rxe0 0xfffff0   RC   RTS  32767 12885    0   500k      5
     all                                         65534 12885    0   4.5M      5
`},
		{nil, 7, `, 1 program, 2 queue pairs; SENT and RCVD in Mbit/s
rxe0: 83k packets/s, 0 dropped/s

 PROCESS     PROGRAM DEVICE      QPN TYPE STATE QUEUED SENT RCVD PKTS/S LOST/S
 4194303 ib_write_bw   rxe0 0xfffff1   RC   RTS  32767    0    0   667k      0
     all                                         65534 2147    0   750k      1
and 1 queue pair more
`},
	} {
		var out bytes.Buffer
		if err := writeTop(&out, now, c.before, &topView{height: c.height}); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(out.String(), ","); ","+got != c.want {
			t.Errorf("got\n%s\nwant\n%s", &out, c.want)
		}
		checkWidth(t, out.String())
	}
}

// TestTopJSON: one object a report, on one line, with the same queue pairs.
func TestTopJSON(t *testing.T) {
	before := newSample(topStatus(map[string]uint64{"sent_bytes": 100}), time.Unix(100, 0))
	now := newSample(topStatus(map[string]uint64{"sent_bytes": 100 + 1<<20, "sent_packets": 8, "retransmits": 4}), time.Unix(102, 0))
	now.st.Sessions[0].Label = "a run"
	var out bytes.Buffer
	for range 2 {
		if err := writeTopJSON(&out, now, before, &topView{}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	var r topReport
	if err := json.Unmarshal([]byte(lines[1]), &r); err != nil {
		t.Fatal(err)
	}
	want := topQP{Label: "a run", PID: 4194303, Program: "ib_write_bw\x1b[2J", Device: "rxe0", QP: "0xfffff0", Type: "RC", State: "RTS", Queued: 32767, Sent: 1 << 19, Packets: 4, Lost: 2}
	if len(r.QueuePairs) != 1 || r.QueuePairs[0] != want || len(r.Devices) != 1 || r.Devices[0].Packets != 4 || !r.Time.Equal(now.at) {
		t.Errorf("the report is %+v", r)
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999: "999", 999.6: "1.0k", 1024: "1.0k", 10 << 10: "10k", 1023 << 10: "1.0M", 3 << 30: "3.0G", 5 << 50: "5120T"} {
		if got := short(n, 1024); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

// TestTopDaemon: reports of a daemon without programs.
func TestTopDaemon(t *testing.T) {
	if code, _, stderr := gorxe(t, "top", "--interval", "0s"); code != exitUsage || !strings.Contains(stderr, "--interval") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if code, _, stderr := gorxe(t, "top", "--socket", "/no/such/socket"); code != exitFailed || !strings.Contains(stderr, "gorxe daemon") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
