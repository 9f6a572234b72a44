package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorxe/gorxe/cmd/internal/doctor"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rxe"
)

// wideStatus is a status in which everything has many digits.
func wideStatus() *proto.Status {
	const gid = "2001:0db8:1111:2222:3333:4444:5555:6666"
	st := topStatus(map[string]uint64{"sent_bytes": 1 << 62, "rcvd_bytes": 1 << 62, "sent_packets": 1 << 50, "retransmits": 1 << 40})
	st.PID, st.Socket, st.Started = 4194303, "/run/user/4294967295/gorxe.sock", time.Unix(1, 0)
	ecn := rxe.DefaultECN()
	*ecn.Params()[0].Value++
	st.Devices = []proto.DeviceStatus{{
		Name: "rxe1234567", GUID: "ca9079cadfda5ce5", ECN: ecn, Counters: map[string]uint64{"drop_bad_qpn": 1 << 60, "drop_filtered_packets": 1 << 60, "icrc_errors": 1 << 60},
		Ports: []proto.PortStatus{{
			Number: 1, Interface: "veth0123456789a", State: "PORT_ACTIVE", MTU: 65536, ActiveMTU: 4096, SpeedGbps: 2.5,
			GIDs: []proto.GIDStatus{{Index: 63, GID: gid}}, Counters: map[string]uint64{"receive_queue_drop": 1 << 60},
		}},
	}}
	s := &st.Sessions[0]
	s.ID, s.UID, s.Label, s.Chaos, s.FilesLeftOut, s.CMIDsLeftOut = 1<<40, 4294967294, strings.Repeat("l", 30), 1<<63, 1, 1
	p := &s.Processes[0]
	p.Name = "a-long-name-abc"
	f := &p.Files[0]
	f.Device, f.PDs, f.XRCDs, f.MRBytes, f.OldLibrxe = "rxe1234567", 123456, 65536, 1<<60, true
	f.Doorbells = proto.DoorbellStatus{How: "polled", Why: strings.Repeat("why ", 40)}
	f.QPs[0].Peer, f.QPs[0].RateMbps = &proto.PeerStatus{GID: gid, QPN: 0xffffff, MTU: 4096}, 400000
	f.LeftOut = proto.LeftOut{MRs: 1234567, CQs: 1234567, SRQs: 1234567, QPs: 1234567}
	s.CMIDs = []proto.CMIDStatus{{PID: 4194303, ID: 1 << 31, Space: "IPOIB", State: "ADDR_RESOLVED", Device: "rxe1234567", Local: "[" + gid + "]:65535", Remote: "[" + gid + "]:65535"}}
	return st
}

// TestWidth: what prints tables fits a terminal of 80 columns, also if it does not print to a
// terminal.
func TestWidth(t *testing.T) {
	t.Setenv("COLUMNS", "")
	st := wideStatus()
	print := func(name string, do func(*bytes.Buffer) error) {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := do(&out); err != nil || out.Len() == 0 {
				t.Fatalf("%v, %d bytes", err, out.Len())
			}
			checkWidth(t, out.String())
		})
	}
	print("status", func(w *bytes.Buffer) error { return writeStatus(w, st, true, false) })
	print("top", func(w *bytes.Buffer) error { return writeTop(w, newSample(st, time.Unix(2, 0)), nil, &topView{}) })
	print("devices", func(w *bytes.Buffer) error {
		return writeTable(w, []deviceInfo{{
			Name: "rxe12", Interface: "veth0123456789a", State: "PORT_ACTIVE", SpeedGbps: 2.5, MTU: 65536, ActiveMTU: 4096, NodeGUID: "ca9079cadfda5ce5",
			GIDs: []gidInfo{{Index: 63, GID: "2001:0db8:1111:2222:3333:4444:5555:6666", Address: "2001:db8:1111:2222:3333:4444:5555:6666"}},
		}})
	})
	print("doctor", func(w *bytes.Buffer) error {
		return writeFindings(w, []doctor.Finding{{Subject: "programs' memory", Level: doctor.Warning, Text: strings.Repeat("word ", 60), Remedy: strings.Repeat("remedy ", 60)}})
	})
	for _, args := range [][]string{
		{"explain", modifyQP}, append([]string{"explain"}, explainable()...),
		{"devices"}, {"devices", "--as-seen", "--devices", "2"}, {"help", "devices"}, {"version"},
	} {
		print(fmt.Sprintf("%.40s", strings.Join(args, " ")), func(w *bytes.Buffer) error {
			code, stdout, stderr := gorxe(t, args...)
			w.WriteString(stdout)
			if code != exitOK {
				return fmt.Errorf("exit code %d, %s", code, stderr)
			}
			return nil
		})
	}
}

// TestTableFolds: a table that fits stays as it is, and one that does not has more lines for each
// row.
func TestTableFolds(t *testing.T) {
	const rows = "A\tLONG NAME\tC\n1\tvalue\t\n\nB\tD\n22\t3\n"
	for columns, want := range map[string]string{
		"80": "A  LONG NAME  C\n1  value\n\nB   D\n22  3\n",
		"40": "A  LONG NAME  C\n1  value\n\nB   D\n22  3\n",
	} {
		t.Setenv("COLUMNS", columns)
		var out bytes.Buffer
		tab := newTable(&out)
		fmt.Fprint(tab, rows)
		if err := tab.Flush(); err != nil || out.String() != want {
			t.Errorf("%s columns, %v:\n%s", columns, err, &out)
		}
	}
	t.Setenv("COLUMNS", "20")
	var out bytes.Buffer
	tab := newTable(&out)
	fmt.Fprint(tab, "FIRST\tSECOND COLUMN\tTHIRD\n1\t2\t3\n4\t5\t\n")
	const want = "FIRST  SECOND COLUMN\n    THIRD\n1      2\n    3\n4      5\n"
	if err := tab.Flush(); err != nil || out.String() != want {
		t.Errorf("20 columns, %v:\n%s", err, &out)
	}
}

// TestWideStatus: --wide prints each row of a table in one line.
func TestWideStatus(t *testing.T) {
	t.Setenv("COLUMNS", "40")
	var out bytes.Buffer
	if err := writeStatus(&out, wideStatus(), false, true); err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"SESSION ", "PROCESS  DEVICE      QPN"} {
		if i := strings.Index(out.String(), head); i < 0 || len(strings.SplitN(out.String()[i:], "\n", 2)[0]) < 80 {
			t.Errorf("the table of %s is folded:\n%s", head, &out)
		}
	}
}

// TestZeroColumns: a table that is too wide loses the columns that say nothing; one that fits keeps
// them.
func TestZeroColumns(t *testing.T) {
	const rows = "NAME\tZERO\tNOTHING\tN\nlong-name\t0\t-\t0\nx\t0\t\t7\n"
	for columns, want := range map[string]string{
		"80": "NAME       ZERO  NOTHING  N\nlong-name  0     -        0\nx          0              7\n",
		"20": "NAME       N\nlong-name  0\nx          7\n",
	} {
		t.Setenv("COLUMNS", columns)
		var out bytes.Buffer
		tab := newTable(&out)
		fmt.Fprint(tab, rows)
		if err := tab.Flush(); err != nil || out.String() != want {
			t.Errorf("%s columns, %v:\n%s", columns, err, &out)
		}
	}
}
