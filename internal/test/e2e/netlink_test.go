package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// object is one line of what rdma prints with -j.
type object map[string]any

// rdma runs iproute2's rdma, and returns what it prints with -j.
func (l launch) rdma(t *testing.T, r release, args ...string) (list []object) {
	t.Helper()
	out := l(t, r.argv(append([]string{"rdma", "-j"}, args...)...)...).ok()
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("rdma -j %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return slices.DeleteFunc(list, func(o object) bool { return len(o) == 0 })
}

func (o object) number(name string) int {
	n, _ := o[name].(float64)
	return int(n)
}

// owners are the process and the name of each object.
func owners(list []object) map[string]int {
	of := make(map[string]int)
	for _, o := range list {
		of[fmt.Sprint(o["comm"])] = o.number("pid")
	}
	return of
}

// TestRDMATool: iproute2's rdma shows the device as gorxe status and sysfs do, and the
// resources of programs with their processes.
func TestRDMATool(t *testing.T) {
	besideOthers(t)
	need(t, "rdma", "ibv_srq_pingpong", "rping")
	if !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	run := launch(d.run)
	installed := release{}

	port := d.host.nextPort()
	server := d.run(t, "ibv_srq_pingpong", "-d", "rxe0", "-g", "1", "-q", "4", "-p", strconv.Itoa(port))
	server.listening(port)
	listener := d.run(t, "rping", "-s", "-a", d.host.addr, "-p", "7171")
	if !until(programLimit, func() bool { return listener.ended() || d.books().listens(7171) }) || listener.ended() {
		t.Fatalf("rping is not ready\n%s", listener.describe())
	}

	links := run.rdma(t, installed, "link", "show")
	if len(links) != 1 || links[0]["ifname"] != "rxe0" || links[0].number("port") != 1 || links[0]["state"] != "ACTIVE" ||
		links[0]["physical_state"] != "LINK_UP" || links[0]["netdev"] != "eth0" {
		t.Errorf("rdma link: %v", links)
	}
	guid := strings.TrimSpace(d.run(t, "cat", "/sys/class/infiniband/rxe0/node_guid").ok())
	devs := run.rdma(t, installed, "dev", "show")
	if len(devs) != 1 || devs[0]["ifname"] != "rxe0" || devs[0]["node_guid"] != guid || devs[0]["node_type"] != "ca" {
		t.Errorf("rdma dev: %v; sysfs has the GUID %s", devs, guid)
	}

	pingpong, rping := d.processOf(t, "ibv_srq_pingpon"), d.processOf(t, "rping")
	want := object{"ifname": "rxe0", "ifindex": 0., "pd": 2., "cq": 1., "qp": 4., "cm_id": 1., "mr": 1., "ctx": 2., "srq": 1.}
	if got := run.rdma(t, installed, "resource", "show"); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("rdma resource show: %v, want %v", got, want)
	}
	kinds := map[string]map[string]int{
		"qp": {"ibv_srq_pingpon": pingpong}, "cq": {"ibv_srq_pingpon": pingpong}, "mr": {"ibv_srq_pingpon": pingpong},
		"srq": {"ibv_srq_pingpon": pingpong}, "cm_id": {"rping": rping},
		"pd": {"ibv_srq_pingpon": pingpong, "rping": rping}, "ctx": {"ibv_srq_pingpon": pingpong, "rping": rping},
	}
	for kind, want := range kinds {
		list := run.rdma(t, installed, "resource", "show", kind)
		if got := owners(list); !maps.Equal(got, want) {
			t.Errorf("rdma resource show %s: %v, want %v", kind, got, want)
		}
	}
	qps := run.rdma(t, installed, "-d", "resource", "show", "qp", "link", "rxe0/1", "pid", strconv.Itoa(pingpong))
	if len(qps) != 4 || len(run.rdma(t, installed, "resource", "show", "qp", "link", "rxe0/1", "pid", "1")) != 0 {
		t.Errorf("a filter for process %d finds %v", pingpong, qps)
	}
	one := run.rdma(t, installed, "resource", "show", "qp", "link", "rxe0/1", "lqpn", strconv.Itoa(qps[0].number("lqpn")))
	if len(one) != 1 || !reflect.DeepEqual(one[0], qps[0]) || one[0]["type"] != "RC" || one[0]["state"] != "INIT" {
		t.Errorf("queue pair %d by its number: %v, want %v", qps[0].number("lqpn"), one, qps[0])
	}
	ids := run.rdma(t, installed, "resource", "show", "cm_id")
	if ids[0]["state"] != "LISTEN" || ids[0]["ps"] != "TCP" || ids[0]["src-addr"] != d.host.addr+":7171" {
		t.Errorf("rdma resource show cm_id: %v", ids)
	}

	stat := run.rdma(t, installed, "statistic", "show", "link", "rxe0/1")
	if len(stat) != 1 {
		t.Fatalf("rdma statistic: %v", stat)
	}
	for _, name := range strings.Fields(d.run(t, "ls", "/sys/class/infiniband/rxe0/ports/1/hw_counters").ok()) {
		// Netlink has what all users may read.
		_, ok := stat[0][name]
		if want := name != "lifespan" && name != "receive_filter_drop"; ok != want {
			t.Errorf("rdma statistic has %s: %v, want %v: %v", name, ok, want, stat)
		}
	}
	if text := d.run(t, "rdma", "system", "show").ok(); !strings.Contains(text, "netns shared") {
		t.Errorf("rdma system: %s", text)
	}
	for _, mode := range []string{"exclusive", "shared"} {
		d.run(t, "rdma", "system", "set", "netns", mode).ok()
		if text := d.run(t, "rdma", "system", "show").ok(); !strings.Contains(text, "netns "+mode) {
			t.Errorf("rdma system set netns %s: %s", mode, text)
		}
	}
	refused := d.run(t, "rdma", "link", "add", "rxe7", "type", "rxe", "netdev", "eth0")
	if refused.wait() == 0 || !strings.Contains(refused.out.String(), "Operation not supported") {
		t.Errorf("rdma link add: %s", refused.out.String())
	}
	server.killProgram("ibv_srq_pingpon")
	listener.killProgram("rping")
}

// processOf is the process of that name in gorxe status.
func (d *daemon) processOf(t *testing.T, name string) int {
	t.Helper()
	for _, s := range d.books().Sessions {
		for _, p := range s.Processes {
			if p.Name == name {
				return p.PID
			}
		}
	}
	t.Fatalf("gorxe status has no process %s", name)
	return 0
}

// checkOwner: the process and the name that rdma shows are those of a program of the user.
func checkOwner(t *testing.T, qp object, uid uint32) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", qp.number("pid"))
	comm, err := os.ReadFile(dir + "/comm")
	if err != nil {
		t.Fatalf("queue pair %v: %v", qp, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	if name := strings.TrimSpace(string(comm)); name != "ibv_rc_pingpong" || qp["comm"] != name || st.Uid != uid {
		t.Errorf("queue pair %v; the process is %s of user %d, want one of user %d", qp, name, st.Uid, uid)
	}
}

// joinNotifications ends with the errno of joining group 4 of NETLINK_RDMA, as rdma monitor does.
const joinNotifications = `
import socket, sys
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
try:
    s.bind((0, 1 << 3))
except OSError as e:
    sys.exit(e.errno)
`

// TestRDMAUsers: a user sees the resources of its own programs, root those of all, with the
// process and its name. An ordinary user sees no keys, changes nothing and monitors nothing.
func TestRDMAUsers(t *testing.T) {
	need(t, "rdma", "ibv_rc_pingpong", "/usr/bin/python3")
	if oneUser {
		t.Skip("there is one user here")
	}
	if !selection.takes(core) {
		return
	}
	a, _ := twoHosts(t, 1500)
	d := startDaemon(t, a, "--device", "rxe0=eth0", "--socket-mode", "0666")
	users := []*host{a.as(65534, 65534), a.as(65533, 65533)}
	var qpns [2]int
	for i, u := range users {
		port := 18700 + i
		p := d.runAs(t, u, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-p", strconv.Itoa(port))
		p.listening(port)
		defer p.killProgram("ibv_rc_pingpong")
	}
	as := func(h *host) launch {
		return func(t *testing.T, argv ...string) *proc { return d.runAs(t, h, argv...) }
	}
	for i, u := range users {
		qps := as(u).rdma(t, release{}, "resource", "show", "qp")
		if len(qps) != 1 {
			t.Fatalf("user %d sees %v", i, qps)
		}
		qpns[i] = qps[0].number("lqpn")
		checkOwner(t, qps[0], u.cred.Uid)
		mrs := as(u).rdma(t, release{}, "resource", "show", "mr")
		if len(mrs) != 1 || mrs[0]["lkey"] != nil {
			t.Errorf("user %d sees the regions %v", i, mrs)
		}
		for _, change := range []string{"link add rxe7 type rxe netdev eth0", "system set netns exclusive"} {
			refused := d.runAs(t, u, append([]string{"rdma"}, strings.Fields(change)...)...)
			if refused.wait() == 0 || !strings.Contains(refused.out.String(), "Operation not permitted") {
				t.Errorf("rdma %s as user %d: %s", change, i, refused.out.String())
			}
		}
		if code := d.runAs(t, u, "/usr/bin/python3", "-c", joinNotifications).wait(); code != int(unix.EPERM) {
			t.Errorf("user %d joins a group: %d, want EPERM", i, code)
		}
	}
	var all []int
	for _, qp := range as(a).rdma(t, release{}, "resource", "show", "qp") {
		all = append(all, qp.number("lqpn"))
		if i := slices.Index(qpns[:], qp.number("lqpn")); i >= 0 {
			checkOwner(t, qp, users[i].cred.Uid)
		}
	}
	slices.Sort(all)
	slices.Sort(qpns[:])
	if !slices.Equal(all, qpns[:]) || qpns[0] == qpns[1] {
		t.Errorf("root sees %v, the users %v", all, qpns)
	}
	if mrs := as(a).rdma(t, release{}, "resource", "show", "mr"); len(mrs) != 2 || mrs[0]["lkey"] == nil {
		t.Errorf("root sees the regions %v", mrs)
	}
}

// netlinkSeen is what vishvananda/netlink reads.
type netlinkSeen struct {
	Links    []netlink.RdmaLink
	Mode     string
	Counters map[string]uint64
	Ports    []uint32
	Kinds    map[string]uint64
	Changes  map[string]string // what is refused, but the mode
	Err      string
}

// playNetlink reads the device with vishvananda/netlink.
func playNetlink([]string) int {
	var s netlinkSeen
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	links, err := netlink.RdmaLinkList()
	if err != nil {
		return fail(err)
	}
	for _, l := range links {
		byName, err := netlink.RdmaLinkByName(l.Attrs.Name)
		if err != nil {
			return fail(err)
		}
		s.Links = append(s.Links, *byName)
	}
	if s.Mode, err = netlink.RdmaSystemGetNetnsMode(); err != nil {
		return fail(err)
	}
	stat, err := netlink.RdmaPortStatisticList(links[0], 1)
	if err != nil {
		return fail(err)
	}
	s.Counters = stat.Statistics
	all, err := netlink.RdmaStatistic(links[0])
	if err != nil {
		return fail(err)
	}
	for _, port := range all.RdmaPortStatistics {
		s.Ports = append(s.Ports, port.PortIndex)
	}
	resources, err := netlink.RdmaResourceList()
	if err != nil {
		return fail(err)
	}
	s.Kinds = resources[0].RdmaResourceSummaryEntries
	s.Changes = map[string]string{
		"add":       fmt.Sprint(netlink.RdmaLinkAdd("rxe7", "rxe", "eth0")),
		"delete":    fmt.Sprint(netlink.RdmaLinkDel("rxe0")),
		"name":      fmt.Sprint(netlink.RdmaLinkSetName(links[0], "rxe7")),
		"namespace": fmt.Sprint(netlink.RdmaLinkSetNsFd(links[0], 0)),
		"mode":      fmt.Sprint(netlink.RdmaSystemSetNetnsMode("exclusive")),
	}
	_, err = netlink.RdmaLinkByName("none")
	s.Err = fmt.Sprint(err)
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return fail(err)
	}
	return 0
}

// TestNetlinkLibrary: vishvananda/netlink, which takes answers of the kernel only, reads the same
// device.
func TestNetlinkLibrary(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	d := oneDaemon(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := d.run(t, "env", roleEnv+"=netlink", exe).ok()
	var s netlinkSeen
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	guid := strings.TrimSpace(d.run(t, "cat", "/sys/class/infiniband/rxe0/node_guid").ok())
	if len(s.Links) != 1 || s.Links[0].Attrs.Name != "rxe0" || backwards(s.Links[0].Attrs.NodeGuid) != strings.ReplaceAll(guid, ":", "") {
		t.Errorf("the links are %+v; sysfs has the GUID %s", s.Links, guid)
	}
	if s.Mode != "shared" || !strings.Contains(s.Err, "none") {
		t.Errorf("mode %q, a link that does not exist %q", s.Mode, s.Err)
	}
	if len(s.Changes) != 5 {
		t.Errorf("%d changes", len(s.Changes))
	}
	for change, err := range s.Changes {
		if want := map[bool]string{true: "<nil>", false: "operation not supported"}[change == "mode"]; err != want {
			t.Errorf("%s: %q", change, err)
		}
	}
	if !slices.Equal(s.Ports, []uint32{1}) {
		t.Errorf("statistics of the ports %v", s.Ports)
	}
	if _, ok := s.Counters["sent_pkts"]; !ok {
		t.Errorf("the counters are %v", s.Counters)
	}
	if _, ok := s.Kinds["qp"]; !ok || len(s.Kinds) != 7 {
		t.Errorf("the resources are %v", s.Kinds)
	}
}

// backwards is a GUID as vishvananda/netlink writes it, the last byte first, in the order of sysfs
// and without the signs between.
func backwards(guid string) string {
	parts := strings.Split(guid, ":")
	slices.Reverse(parts)
	return strings.Join(parts, "")
}
