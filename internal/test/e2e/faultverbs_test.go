package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// verbFaults are the rows of testdata/fault-outcomes.md with a stock program that ends because of a
// rule, and what it says. The words behind the last error are those of strerror(3).
var verbFaults = []struct{ rule, program, says string }{
	{"verb fail,verb=open_device,errno=EACCES", "ibv_rc_pingpong", "Couldn't get context for rxe0"},
	{"verb fail,verb=alloc_pd,errno=ENOMEM", "ibv_rc_pingpong", "Couldn't allocate PD"},
	{"verb fail,verb=reg_mr,errno=ENOMEM", "ibv_rc_pingpong", "Couldn't register MR"},
	{"verb fail,verb=create_comp_channel,errno=EMFILE", "ibv_rc_pingpong -e", "Couldn't create completion channel"},
	{"verb fail,verb=create_cq,errno=EINVAL", "ibv_rc_pingpong", "Couldn't create CQ"},
	{"verb fail,verb=create_qp,errno=ENOMEM", "ibv_rc_pingpong", "Couldn't create QP"},
	{"verb fail,verb=modify_qp,errno=EINVAL,first=1", "ibv_rc_pingpong", "Failed to modify QP to INIT"},
	{"verb fail,verb=create_srq,errno=ENOMEM", "ibv_srq_pingpong", "Couldn't create SRQ"},
	{"verb fail,verb=req_notify_cq,errno=EINVAL", "ibv_rc_pingpong -e", "Couldn't request CQ notification"},
	{"verb fail,verb=query_port,errno=EIO", "ibv_rc_pingpong", "Couldn't get port info"},
	{"verb fail,verb=rdma_create_id,errno=ENOMEM", "rping -s", "rdma_create_id: Cannot allocate memory"},
	{"verb fail,verb=rdma_bind_addr,errno=EADDRINUSE", "rping -s", "rdma_bind_addr: Address already in use"},
	{"verb fail,verb=rdma_listen,errno=EADDRINUSE", "rping -s", "rdma_listen: Address already in use"},
	{"limits set,max_qp=4", "ibv_srq_pingpong", "Couldn't create QP"},
	{"limits set,max_cqe=128", "ibv_rc_pingpong", "Couldn't create CQ"},
	{"limits set,max_qp_wr=128", "ibv_rc_pingpong", "Couldn't create QP"},
	{"limits set,max_srq=0", "ibv_srq_pingpong", "Couldn't create SRQ"},
	{"limits set,max_uc=0", "ibv_uc_pingpong", "Couldn't create QP"},
	{"limits set,max_srq_wr=128", "ibv_srq_pingpong", "Couldn't create SRQ"},
	{"limits set,memory=4096", "ibv_rc_pingpong -s 8192", "Couldn't register MR"},
}

// TestVerbFaults: a stock program meets a verb that fails with an errno, and says so. Other tests
// run the same programs without a rule.
func TestVerbFaults(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong", "ibv_srq_pingpong", "rping")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	for _, c := range verbFaults {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			argv := strings.Fields(c.program)
			if argv[0] != "rping" {
				argv = append(argv, "-d", "rxe0", "-g", strconv.Itoa(gidIPv4))
			}
			p := d.faulty(c.rule)(t, argv...)
			if code := p.wait(); code == 0 || code == 3 || !strings.Contains(p.out.String(), c.says) {
				t.Errorf("exit status %d, want %q\n%s", code, c.says, p.out.String())
			}
		})
	}
}

// workFaults are the rows of testdata/fault-outcomes.md about the client of ibv_rc_pingpong.
var workFaults = []struct{ rule, client, server string }{
	{"verb fail,verb=post_send,errno=ENOMEM,after=3,first=1", "Couldn't post send", ""},
	{"completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=SEND,after=3,first=1", "Failed status local protection error (4)", ""},
	{"completion fail,status=IBV_WC_RETRY_EXC_ERR,opcode=SEND,first=1", "Failed status transport retry counter exceeded (12)", ""},
	{"completion fail,status=IBV_WC_LOC_QP_OP_ERR,opcode=RECV,after=3,first=1", "Failed status local QP operation error (2)", "Failed status remote operation error (11)"},
	{"device fail,event=IBV_EVENT_QP_FATAL,opcode=SEND,after=3,first=1", "Failed status Work Request Flushed Error (5)", ""},
	{"device fail,event=IBV_EVENT_QP_ACCESS_ERR,opcode=RECV,after=3,first=1", "Failed status Work Request Flushed Error (5)", "Failed status remote access error (10)"},
	{"device fail,event=IBV_EVENT_DEVICE_FATAL,opcode=SEND,after=3,first=1", "Failed status Work Request Flushed Error (5)", ""},
	{"limits set,max_msg_sz=1000", "Failed status local length error (1)", ""},
	{"limits set,max_rd_atomic=0", "Failed to modify QP to RTR", ""},
	{"completion delay,time=1ms,opcode=SEND,every=10", "", ""},
	{"peer rnr,first=3", "", ""},
	{"packet drop,direction=out", "Failed status transport retry counter exceeded (12)", ""},
	{"packet drop,direction=out,command=ibv_rc_pingpong", "Failed status transport retry counter exceeded (12)", ""},
	{"completion fail,status=IBV_WC_LOC_PROT_ERR,opcode=SEND,command=ibv_rc_pingpong,after=3,first=1", "Failed status local protection error (4)", ""},
	{"packet drop,direction=in", "Failed status transport retry counter exceeded (12)", "Failed status transport retry counter exceeded (12)"},
	{"peer silent", "Failed status transport retry counter exceeded (12)", ""},
	{"peer half_open,direction=in", "Failed status transport retry counter exceeded (12)", "Failed status transport retry counter exceeded (12)"},
	{"device remove,opcode=SEND,after=3,first=1", "Failed status Work Request Flushed Error (5)", ""},
	{"verb delay,verb=create_qp|modify_qp,time=50ms", "", ""},
	{"packet drop,count=1,after=20", "", ""},
	{"packet duplicate,every=10", "", ""},
	{"packet delay,time=1ms,jitter=1ms,every=10", "", ""},
	{"packet reorder,by=2,every=20", "", ""},
	{"packet corrupt,bit=300,opcode=RC_SEND_MIDDLE,every=40", "", ""},
	{"packet corrupt,field=icrc,opcode=RC_SEND_MIDDLE,every=40", "", ""},
	{"packet mark,every=10", "", ""},
	{"packet shape,rate=100mbit,latency=200us,loss=1%,queue=1000,direction=out", "", ""},
	{"packet shape,rate=100mbit,latency=200us,loss=1%,queue=1000,direction=in", "", ""},
}

// TestWorkFaults: the client of ibv_rc_pingpong meets a rule. The server sees what the network
// shows it: a client that failed by itself is silent.
func TestWorkFaults(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	need(t, "ibv_rc_pingpong")
	notNative(t, "fault rules")
	d := oneDaemon(t)
	one := topology{server: d.run, client: d.run, host: d.host, device: "rxe0"}
	// without a rule
	one.exchange(t, "ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", "PORT", "-c", "-n", "50").good(t)
	for _, c := range workFaults {
		t.Run(c.rule, func(t *testing.T) {
			port := d.host.nextPort()
			argv := []string{"ibv_rc_pingpong", "-d", "rxe0", "-g", strconv.Itoa(gidIPv4), "-p", strconv.Itoa(port), "-c", "-n", "50"}
			s := d.run(t, argv...)
			s.listening(port)
			client := d.faulty(c.rule)(t, append(argv, d.host.addr)...)
			code := client.wait()
			if c.client == "" && code != 0 || c.client != "" && (code == 0 || code == 3) || !strings.Contains(client.out.String(), c.client) {
				t.Errorf("client: exit status %d, want %q\n%s", code, c.client, client.out.String())
			}
			// the server waits for a message that will not come
			if c.client != "" && c.server == "" {
				if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if code := s.wait(); c.client == "" && code != 0 || !strings.Contains(s.out.String(), c.server) {
				t.Errorf("server: exit status %d, want %q\n%s", code, c.server, s.out.String())
			}
		})
	}
}

// TestFaultRows: testdata/fault-outcomes.md has a row for each case.
func TestFaultRows(t *testing.T) {
	if !selection.takes(standard) {
		return
	}
	text, err := os.ReadFile("testdata/fault-outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(verbFaults, portFaults) {
		if row := fmt.Sprintf("\n| `%s` | `%s`: `%s` |\n", c.rule, c.program, c.says); !strings.Contains(string(text), row) {
			t.Errorf("testdata/fault-outcomes.md lacks%s", row)
		}
	}
	for _, c := range portEvents {
		if row := fmt.Sprintf("\n| `%s` | `ibv_asyncwatch`: %s |\n", c.rule, strings.Join(c.events, ", ")); !strings.Contains(string(text), row) {
			t.Errorf("testdata/fault-outcomes.md lacks%s", row)
		}
	}
	for _, c := range workFaults {
		if !strings.Contains(string(text), "\n| `"+strings.ReplaceAll(c.rule, "|", "\\|")+"` | ") {
			t.Errorf("testdata/fault-outcomes.md has no outcome for %s", c.rule)
		}
	}
}
