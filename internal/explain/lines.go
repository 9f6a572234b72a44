package explain

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/rxe"
)

const (
	lineKind = "error line"
	verbKind = "verb"
)

// seeExplain is the remedy where only the daemon knows the reason.
const seeExplain = "Run the program with gorxe run --explain: it names the call, the argument and the limit."

// lineWords are what libibverbs, librdmacm, their example programs, perftest, UCX, libfabric, NCCL
// and MPI print. Each is found by a part of its text, in lower case.
var lineWords = []Word{
	{Name: "No IB devices found", Says: []string{"no ib devices found", "no rdma device", "no infiniband device", "failed to get ib devices list", "unable to find the infiniband", "couldn't find rdma device",
		"no active messages transport", "no device found", "fi_getinfo", "did not detect devices", "no provider found", "unable to open rdma device", "no openfabrics connection schemes", "btl failed to initialize"},
		Meaning: "The program found no RDMA device. The commonest cause is that it runs without gorxe.",
		Fix:     "Start it with gorxe run, as gorxe run -- PROGRAM. If it runs so, compare gorxe run ibv_devices with the device that it wants, and see gorxe doctor."},
	{Name: "IB device not found", Says: []string{"ib device .* not found", "ib device .* wasn't found", "network device .* is not available", "couldn't get context for", "failed to open device"},
		Meaning: "The program names a device that there is not.", Fix: "The device is rxe0, unless --device names another: see gorxe run ibv_devices. For mlx5_0: gorxe run --like connectx6. Without gorxe run there is none."},
	{Name: "couldn't load driver", Says: []string{"couldn't load driver", "no userspace device-specific driver", "couldn't open config directory"},
		Meaning: "libibverbs did not find a provider library. It tries all that it knows, and needs librxe only, or libmlx5 for a device of gorxe run --like.", Fix: "Install rdma-core's providers (ibverbs-providers, libibverbs): see gorxe doctor. Other names do no harm."},
	{Name: "RLIMIT_MEMLOCK", Says: []string{"rlimit_memlock", "memlock"},
		Meaning: "libibverbs warns of a limit for locked memory.", Fix: "None: memory regions of gorxe lock nothing."},
	{Name: "Couldn't read/write remote address", Says: []string{"couldn't read/write remote address", "couldn't connect to remote qp", "client read/write", "failed to exchange data between server and clients", "unable to connect the hca"},
		Meaning: "The other end has ended, or refused what this end sent over TCP: it says why.", Fix: "Read the other end's output first. Give both ends the same options, as -g 1 or -x 1."},
	{Name: "Couldn't connect to", Says: []string{"couldn't connect to", "unable to open file descriptor for socket connection", "unable to init the socket connection"},
		Meaning: "The server does not listen at this address and TCP port. One of perftest with -R listens by RDMA CM instead.", Fix: "Start the server first: gorxe pair SERVER -- CLIENT does so, and waits until it listens. Give -R at both ends of perftest, or at neither."},
	{Name: "Couldn't listen to port", Says: []string{"couldn't listen to port", "bind() failed", "address already in use"},
		Meaning: "Another program has the TCP port. gorxe does not separate TCP ports.", Fix: "Choose another port, or use gorxe pair --hosts."},
	{Name: "GID index", Says: []string{"can't read sgid of index", "wrong gid index", "failed to get gid", "could not get gid", "invalid gid index", "gid index -1"},
		Meaning: "The port has no GID at that index.", Fix: "Use 1, which is the IPv4 address (-g 1, -x 1, NCCL_IB_GID_INDEX=1, UCX_IB_GID_INDEX=1): see gorxe status."},
	{Name: "mtu is higher than active mtu", Says: []string{"higher than active mtu", "invalid mtu", "couldn't change mtu"},
		Meaning: "The path MTU is larger than the port's active MTU, which follows from the interface's.", Fix: "Choose a smaller one, or a larger MTU of the interface: gorxe status has both."},
	{Name: "got completion with error", Says: []string{"got completion with error", "completion with error", "parse wc failed", "cq completion failed"},
		Meaning: "A work request failed. The status beside the line says how; the numbers below a line of mlx5 are of an adapter's own.", Fix: "Look for the first status that is not IBV_WC_WR_FLUSH_ERR (5), and explain it: gorxe explain 12. Or " + lower(seeExplain)},
	{Name: "waiting for addr/route resolution", Says: []string{"addr/route resolution", "failed to resolve rdma cm", "unable to resolve"},
		Meaning: "RDMA CM resolved no address or no route.", Fix: "Choose an address that gorxe status lists, or one to which ip route has a route by a device of gorxe."},
	{Name: "wait for CONNECTED state", Says: []string{`wait for \w+ state`, "connect error", "unexpected cm event", "unexpected event", `unable to perform rdma_\w+ function`, "endpoint timeout", "endpoint is not connected"},
		Meaning: "Instead of the event or the completion that the program waits for, another one came, or none. The connection was not made, or has ended.", Fix: "Start the server first, and compare address, port and port space. Give -R at both ends of perftest, or at neither."},
	{Name: "Failed to open NETLINK_RDMA socket", Says: []string{"netlink_rdma", "rdma link", "type rxe", "rdma_rxe"},
		Meaning: "The program rdma, or modprobe, asks the kernel for RDMA, and not gorxe.", Fix: "Start it with gorxe run, as gorxe run -- rdma link. gorxe run --device rxe0=eth0 takes the place of rdma link add rxe0 type rxe netdev eth0."},
	{Name: "Couldn't Open the XRC Domain", Says: []string{"xrc[ _]domain", `\bxrcd\b`, `^[^a-z]*xrc[^a-z]*$`},
		Meaning: "The program needs XRC, which gorxe does not have, like rdma_rxe.", Fix: "Use RC instead: leave -c XRC out, or choose another program."},
	{Name: "Found Incompatibility issue with GID types", Says: []string{"incompatibility issue with gid types"},
		Meaning: "perftest says that one end uses the GID of an IPv4 address and the other end that of an IPv6 address.", Fix: "Use -x 1 at both ends, which is the IPv4 address: see gorxe status."},
	{Name: "Requested size larger than port MTU", Says: []string{"requested size larger than port mtu", "max msg size in ud is"},
		Meaning: "A message of UD has one packet, so it is not longer than the path MTU.", Fix: "Choose a smaller size (-s), or a larger MTU of the interface: gorxe status has both."},
	{Name: "There was an error initializing an OpenFabrics device", Says: []string{"error initializing an openfabrics device"},
		Meaning: "Open MPI's transport openib could not use the device. It is old, and the program may go on with another one.", Fix: "Use UCX: mpirun --mca pml ucx --mca btl ^openib."},
	{Name: "is not CPU frequency", Says: []string{"conflicting cpu frequency"}, Meaning: "perftest warns that its times may be wrong. It has nothing to do with RDMA.", Fix: "None; -F leaves the warning out."},
	{Name: "inline feature", Says: []string{"inline feature"}, Meaning: "perftest says that it knows no inline size for this device, and uses none.", Fix: "None, or -I BYTES."},
}

// verbWords are verbs, and what programs print when one fails.
var verbWords = []Word{
	{Name: "ibv_get_device_list", Says: []string{"get_device_list"}, Meaning: "It lists the RDMA devices.", Fix: "If there is none, start the program with gorxe run."},
	{Name: "ibv_open_device", Says: []string{"open_device"}, Meaning: "It opens a device. It fails if the daemon is gone or the user may not use it.", Fix: "See gorxe status and gorxe doctor."},
	{Name: "ibv_alloc_pd", Says: []string{"alloc_pd", "allocate pd"}, Meaning: "It makes a protection domain. It fails if there are too many of them."},
	{Name: "ibv_reg_mr", Says: []string{"reg_mr", "register mr", "allocate mr", "create mr", "register memory"}, Meaning: "It makes a memory region. It fails with EFAULT if the memory is not mapped, with EINVAL for access flags that exclude each other, and with ENOMEM at a limit. Locked memory (ulimit -l) is no limit here."},
	{Name: "ibv_create_cq", Says: []string{"create_cq", "create cq"}, Meaning: "It makes a completion queue. It fails with EINVAL if the entries are 0 or more than max_cqe."},
	{Name: "ibv_create_srq", Says: []string{"create_srq", "create srq"}, Meaning: "It makes a shared receive queue. It fails with EINVAL beyond max_srq_wr or max_srq_sge."},
	{Name: "ibv_create_qp", Says: []string{"create_qp", "create qp"}, Meaning: "It makes a queue pair. It fails with EINVAL if a capability exceeds the device's, with EOPNOTSUPP for a type that there is not (XRC, raw packet, DC), and with ENOMEM at a limit."},
	{Name: "ibv_modify_qp", Says: []string{"modify_qp", "modify qp"}, Meaning: "It takes a queue pair to another state. It fails with EINVAL if an attribute is missing or wrong. On the way to RTR, that is often an address without a GID.", Fix: "Use -g 1 with ibv_rc_pingpong and its like, -x 1 with perftest, -cm 1 with qperf. gorxe explain modify_qp lists what each step needs."},
	{Name: "ibv_create_ah", Says: []string{"create_ah", "create ah"}, Meaning: "It makes an address handle. It fails with EINVAL without a GRH (is_global), or with a GID index that has no GID."},
	{Name: "ibv_post_send", Says: []string{"post_send", "post send"}, Meaning: "It posts work. It fails with EINVAL if the queue pair is not in RTS or the request is malformed, and with ENOMEM if the send queue is full."},
	{Name: "ibv_post_recv", Says: []string{"post_recv", "post recv", "post receive"}, Meaning: "It posts a receive. It fails with EINVAL before INIT, and with ENOMEM if the queue is full.", Fix: "Create the queue pair with more max_recv_wr."},
	{Name: "ibv_poll_cq", Says: []string{"poll_cq", "poll cq"}, Meaning: "It takes completions. It fails only if the queue is broken or has overrun.", Fix: "Create the queue with more entries."},
	{Name: "ibv_query_gid", Says: []string{"query_gid"}, Meaning: "It reads a GID. It fails if there is none at the index.", Fix: "See gorxe status for the indices."},
	{Name: "rdma_create_event_channel", Says: []string{"create_event_channel", "event channel"}, Meaning: "It opens /dev/infiniband/rdma_cm. It fails with ENODEV or ENOENT if the program runs without gorxe.", Fix: "Start it with gorxe run."},
	{Name: "rdma_bind_addr", Says: []string{"bind_addr"}, Meaning: "It fails with EADDRNOTAVAIL or ENODEV if no device has the address, and with EADDRINUSE if the port is taken.", Fix: "Choose an address that gorxe status lists."},
	{Name: "rdma_resolve_addr", Says: []string{"resolve_addr"}, Meaning: "It looks for the device and the host of an address.", Fix: "Compare the address with gorxe status and ip route."},
	{Name: "rdma_resolve_route", Says: []string{"resolve_route"}, Meaning: "It looks for the path to an address that was resolved.", Fix: "See ip route."},
	{Name: "rdma_connect", Says: []string{"rdma_connect"}, Meaning: "It connects. The event RDMA_CM_EVENT_REJECTED or UNREACHABLE says why it did not.", Fix: "Start the server first, and compare address, port and port space."},
	{Name: "rdma_listen", Says: []string{"rdma_listen"}, Meaning: "It fails with EADDRINUSE if another program listens at the port.", Fix: "Choose another port."},
	{Name: "rdma_accept", Says: []string{"rdma_accept"}, Meaning: "It accepts a connection. It fails with EINVAL if the client has gone meanwhile, or the queue pair is not of the id's device.", Fix: "Read the client's output."},
}

// statusSays are other texts for a status: UCX's.
var statusSays = map[rxe.WCStatus]string{
	rxe.WCRetryExcErr: "transport retry count exceeded", rxe.WCRNRRetryErr: "receive-no-ready retry count exceeded",
	rxe.WCRemAccessErr: "remote access error", rxe.WCRemOpErr: "remote operation error", rxe.WCLocProtErr: "local protection",
	rxe.WCLocQPOpErr: "local qp operation", rxe.WCRemInvReqErr: "remote invalid request", rxe.WCFlushErr: "wr flushed",
	rxe.WCLocLenErr: "local length",
}

// numbers finds what a number in a line is. "status" and "for wr_id" stand beside that of a status,
// and "errno" before that of an errno, which may also have a minus. -1 is what a function returns
// that has failed, as in rping's "connect error -1", and no errno. Behind "error" it may be any.
var numbers = []struct {
	is   *regexp.Regexp
	kind string
}{
	{regexp.MustCompile(`\bstatus[^0-9]{0,60}?(\d+)\b`), statusKind},
	{regexp.MustCompile(`\((\d+)\) for wr_id`), statusKind},
	{regexp.MustCompile(`\berrno\W{0,3}(\d+)\b`), errnoKind},
	{regexp.MustCompile(`(?:\b(?:error|errno|status|ret|rc|return|returned|code)|:)\W{0,3}?(-(?:[2-9]|\d\d+))\b`), errnoKind},
	{regexp.MustCompile(`rejected\W+(?:error|status)\W{0,3}(\d+)\b`), rejectKind},
	{regexp.MustCompile(`\berror[\s:=]{1,3}(\d+)\b`), ""},
}

// maxLine bounds the text that Search looks at.
const maxLine = 4 << 10

// Search returns what is known of a line that a program printed: of the line, of the names, texts
// and numbers in it.
func Search(line string) (list []Word) {
	line = line[:min(len(line), maxLine)]
	text := strings.ToLower(line)
	add := func(w *Word) {
		if !slices.ContainsFunc(list, func(have Word) bool { return have.Name == w.Name }) {
			list = append(list, *w)
		}
	}
	all := allWords()
	sayings(all, text, add)
	texts(all, text, add)
	syndrome(text, add)
	for _, token := range tokens.FindAllString(line, -1) {
		for _, w := range Find(token) {
			add(&w)
		}
	}
	numbersIn(text, add)
	return list
}

// sayings calls add for each word that programs say as a line does.
func sayings(all []Word, line string, add func(*Word)) {
	for i := range all {
		for _, part := range all[i].Says {
			if is, err := regexp.MatchString(part, line); err == nil && is {
				add(&all[i])
			}
		}
	}
}

// numbersIn calls add for what the numbers in a line are. One behind "error" is none of an exit
// status, and in a line that says "rejected" it is a reason alone.
func numbersIn(line string, add func(*Word)) {
	rejected := strings.Contains(line, "rejected")
	for _, n := range numbers {
		if rejected && n.kind == "" {
			continue
		}
		for _, m := range n.is.FindAllStringSubmatch(line, -1) {
			for _, w := range Find(m[1]) {
				is := w.Kind == n.kind || n.kind == "" && w.Kind != exitKind
				if is && w.Name != statusWords[0].Name {
					add(&w)
				}
			}
		}
	}
}

// tokens are the names in a line: of constants. ETH0 and the like are none.
var tokens = regexp.MustCompile(`\b(?:E[A-Z0-9]{2,}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+_[a-z_]+)\b`)

// texts calls add for each status and errno whose text is in a line. Of two texts in one place the
// longer counts.
func texts(all []Word, line string, add func(*Word)) {
	var with []*Word
	for i := range all {
		if w := &all[i]; w.Text != "" && w.Name != statusWords[0].Name {
			with = append(with, w)
		}
	}
	slices.SortStableFunc(with, func(a, b *Word) int { return cmp.Compare(len(b.Text), len(a.Text)) })
	for _, w := range with {
		text := strings.ToLower(w.Text)
		if strings.Contains(line, text) {
			add(w)
			line = strings.ReplaceAll(line, text, "\n")
		}
	}
}

// lower begins a sentence that is part of another.
func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// number returns what a word that is only a number may be: an errno that no verb returns only if it
// is nothing else.
func number(name string, all []Word) (list []Word, ok bool) {
	n, err := strconv.Atoi(name)
	if err != nil {
		return nil, false
	}
	var rare, exits []Word
	for _, w := range all {
		switch {
		case w.Number != n && (n >= 0 || w.Kind != errnoKind || w.Number != -n), n < 0 && w.Number == n:
		case w.Kind == exitKind:
			exits = append(exits, w)
		case w.foreign:
			rare = append(rare, w)
		default:
			list = append(list, w)
		}
	}
	if list == nil {
		list = rare
	}
	return append(exits, list...), true
}
