package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// packetFaults are the rows of testdata/fault-outcomes.md about a damaged header field. The client
// of ib_write_bw has the rule. Status is how its WRITE completes, 0 if it succeeds.
var packetFaults = []struct {
	rule   string
	status int
}{
	{"packet corrupt,field=va,value=0,opcode=RC_RDMA_WRITE_ONLY,first=1", 10},
	{"packet corrupt,field=rkey,opcode=RC_RDMA_WRITE_ONLY,first=1", 10},
	{"packet corrupt,field=dma_len,opcode=RC_RDMA_WRITE_ONLY,first=1", 9},
	{"packet corrupt,field=pad,value=3,opcode=RC_RDMA_WRITE_ONLY,first=1", 9},
	{"packet corrupt,field=opcode,value=0x24,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=tver,value=3,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=pkey,value=0x1234,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=dest_qp,value=0,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=psn,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=ack_req,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=se,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=migreq,opcode=RC_RDMA_WRITE_ONLY,first=1", 0},
	{"packet corrupt,field=syndrome,value=0x62,opcode=RC_ACKNOWLEDGE,direction=in,first=1", 10},
	{"packet corrupt,field=msn,opcode=RC_ACKNOWLEDGE,direction=in,first=1", 0},
}

// TestPacketFaults: one damaged header field makes ib_write_bw fail with the status that the
// specification demands, or the requester repairs it.
func TestPacketFaults(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "ib_write_bw")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	one := topology{server: d.run, client: d.run, host: d.host, device: "rxe0"}
	one.exchange(t, perftestArgs("ib_write_bw -s 64 -n 10")...).good(t) // without a rule
	for _, c := range packetFaults {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			port := d.host.nextPort()
			argv := []string{"ib_write_bw", "-d", "rxe0", "-x", strconv.Itoa(gidIPv4), "-p", strconv.Itoa(port), "-s", "64", "-n", "10", "-F"}
			s := d.run(t, argv...)
			s.listening(port)
			client := d.faulty(c.rule)(t, append(argv, d.host.addr)...)
			if c.status == 0 {
				client.ok()
				s.ok()
				return
			}
			says := "Failed status " + strconv.Itoa(c.status) + ":"
			if code := client.wait(); code == 0 || code == 3 || !strings.Contains(client.out.String(), says) {
				t.Errorf("client: exit status %d, want %q\n%s", code, says, client.out.String())
			}
			if code := s.wait(); code == 0 {
				t.Errorf("the server ends well\n%s", s.out.String())
			}
		})
	}
}

// pyverbsFaults are the rows of testdata/fault-outcomes.md about fields that perftest does not
// send. One of rdma-core's tests has the rule.
var pyverbsFaults = []struct{ rule, test, result string }{
	{"packet corrupt,field=imm,opcode=RC_SEND_ONLY_WITH_IMMEDIATE,first=1", "test_qpex.QpExTestCase.test_qp_ex_rc_send_imm", "fail"},
	{"packet corrupt,field=qkey,opcode=UD_SEND_ONLY,first=1", "test_qpex.QpExTestCase.test_qp_ex_ud_send", "error"},
	{"packet corrupt,field=ieth_rkey,opcode=RC_SEND_ONLY_WITH_INVALIDATE,first=1", "test_mr.MWTest.test_mw_type2_invalidate_remote", "error"},
}

// TestPyverbsPacketFaults: rdma-core's own tests notice an immediate that is another, a Q_Key that
// does not fit, and a window that was not invalidated. Without the rule they pass.
func TestPyverbsPacketFaults(t *testing.T) {
	besideOthers(t)
	need(t, "/usr/bin/python3")
	if !selection.takes(standard) {
		return // Python runs too long under the race detector
	}
	notNative(t, "fault rules")
	d := oneDaemon(t)
	var names []string
	for _, c := range pyverbsFaults {
		names = append(names, c.test)
	}
	for name, v := range runRDMACore(t, d.runner(), release{}, rdmacoreTests(t), names...) {
		if v.Result != "pass" {
			t.Errorf("without a rule: %s: %s %q", name, v.Result, v.Detail)
		}
	}
	for _, c := range pyverbsFaults {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			got := runRDMACore(t, runner{d.faulty(c.rule), "rxe0"}, release{}, rdmacoreTests(t), c.test)
			if v := got[c.test]; v.Result != c.result {
				t.Errorf("%s: %s %q, want %s", c.test, v.Result, v.Detail, c.result)
			}
		})
	}
}

// TestPacketFaultRows: testdata/fault-outcomes.md has a row for each case.
func TestPacketFaultRows(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	text, err := os.ReadFile("testdata/fault-outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range packetFaults {
		outcome := "good"
		if c.status != 0 {
			outcome = "IBV_WC_" + wcErrors[c.status-1]
		}
		if row := "\n| `" + c.rule + "` | " + outcome; !strings.Contains(string(text), row) {
			t.Errorf("testdata/fault-outcomes.md lacks%s", row)
		}
	}
	for _, c := range pyverbsFaults {
		if row := "\n| `" + c.rule + "` | `" + c.test + "`: "; !strings.Contains(string(text), row) {
			t.Errorf("testdata/fault-outcomes.md lacks%s", row)
		}
	}
}
