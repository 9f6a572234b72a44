package fault

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// verbNames are the calls that reach the device: those of libibverbs without ibv_, and those of
// librdmacm. ibv_post_recv and ibv_poll_cq only write and read memory.
var verbNames = []string{
	"open_device", "query_device", "query_port", "query_gid_table",
	"alloc_pd", "dealloc_pd", "reg_mr", "rereg_mr", "dereg_mr", "advise_mr", "query_mr",
	"alloc_mw", "dealloc_mw", "create_ah", "destroy_ah",
	"alloc_dm", "free_dm", "reg_dm_mr",
	"create_comp_channel", "create_cq", "modify_cq", "resize_cq", "req_notify_cq", "destroy_cq",
	"open_xrcd", "close_xrcd", "open_qp",
	"create_srq", "modify_srq", "query_srq", "destroy_srq",
	"create_qp", "modify_qp", "query_qp", "destroy_qp", "post_send", "attach_mcast", "detach_mcast",
	"create_flow", "destroy_flow", "create_counters", "destroy_counters", "read_counters",
	"create_wq", "modify_wq", "destroy_wq", "create_rwq_ind_table", "destroy_rwq_ind_table",
	"rdma_create_id", "rdma_destroy_id", "rdma_migrate_id", "rdma_bind_addr",
	"rdma_resolve_addr", "rdma_resolve_route", "rdma_listen", "rdma_connect", "rdma_accept",
	"rdma_reject", "rdma_disconnect", "rdma_init_qp_attr", "rdma_set_option", "rdma_notify",
	"rdma_join_multicast", "rdma_leave_multicast",
}

// memoryVerbs are calls that the device never sees.
var memoryVerbs = []string{"post_recv", "post_srq_recv", "poll_cq"}

// WCStatus is the number of an enum ibv_wc_status.
type WCStatus uint8

// statusPrefix begins the names of enum ibv_wc_status.
const statusPrefix = "IBV_WC_"

// statusNames are enum ibv_wc_status.
var statusNames = [...]string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
	"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
	"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
	"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR",
}

func (s WCStatus) String() string { return statusPrefix + statusNames[s] }

func setStatus(r *Rule, v string) error {
	for i, name := range statusNames {
		if i > 0 && strings.TrimPrefix(v, statusPrefix) == name {
			r.Status = WCStatus(i)
			return nil
		}
	}
	if near := Nearest(strings.TrimPrefix(v, statusPrefix), statusNames[1:]); near != "" {
		return fmt.Errorf("there is no such error in enum ibv_wc_status: is it %s%s?", statusPrefix, near)
	}
	return fmt.Errorf("give an error of enum ibv_wc_status, as IBV_WC_RETRY_EXC_ERR")
}

// errnos are the errnos by their names.
var errnos, errnoNames = func() (map[string]unix.Errno, []string) {
	byName, names := make(map[string]unix.Errno), []string(nil)
	for e := unix.Errno(1); e < 200; e++ {
		if name := unix.ErrnoName(e); name != "" {
			byName[name] = e
			names = append(names, name)
		}
	}
	return byName, names
}()

func setErrno(r *Rule, v string) error {
	e, ok := errnos[v]
	if !ok {
		if near := Nearest(v, errnoNames); near != "" {
			return fmt.Errorf("there is no such errno: is it %s?", near)
		}
		return fmt.Errorf("give the name of an errno, as ENOMEM")
	}
	r.Errno = e
	return nil
}

// nameSet is a set of verbs, or of operations, by their places in the list of names.
type nameSet uint64

func (s nameSet) has(i int) bool { return s&(1<<i) != 0 }

// tooMany refuses a list of patterns that is longer than the names are many. Each pattern is
// compared with all names, and users of a shared daemon write them.
func tooMany(list string, names []string) error {
	if n := strings.Count(list, "|") + 1; n > len(names) {
		return fmt.Errorf("the list has %d names, and there are only %d: name each one once", n, len(names))
	}
	return nil
}

// selectNames returns the names that a list of patterns selects. what says what they are.
func selectNames(list, what string, names []string) (selected nameSet, err error) {
	_, kind, _ := strings.Cut(what, " ")
	if err := tooMany(list, names); err != nil {
		return 0, err
	}
	for pattern := range strings.SplitSeq(list, "|") {
		if strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_*") != "" {
			return 0, fmt.Errorf("the name of %s has letters, digits and _; * stands for any of them", what)
		}
		found := false
		for i, name := range names {
			if ok, _ := path.Match(pattern, name); ok {
				selected |= 1 << i
				found = true
			}
		}
		if !found {
			if near := Nearest(pattern, names); near != "" {
				return 0, fmt.Errorf("there is no %s %s: is it %s?", kind, pattern, near)
			}
			return 0, fmt.Errorf("there is no %s %s: there are %s", kind, pattern, oneOf(names))
		}
	}
	return selected, nil
}

func setVerb(r *Rule, v string) error {
	verbs := strings.Split(v, "|")
	for i, name := range verbs { // libibverbs' names serve as well; ibv_* would not say which
		if short, ok := strings.CutPrefix(name, "ibv_"); ok && !strings.HasPrefix(short, "*") {
			verbs[i] = short
		}
	}
	v = strings.Join(verbs, "|")
	r.Verb = v
	if slices.Contains(memoryVerbs, v) {
		return fmt.Errorf("%s makes no call that reaches the device: it only uses memory", v)
	}
	_, err := selectNames(v, "a verb", verbNames)
	return err
}

// workOps are the operations of work requests, with the queue pairs that have them. The names are
// those of enum ibv_wc_opcode without IBV_WC_.
var workOps = []struct{ name, types string }{
	{"SEND", "RC UC UD"},
	{"RDMA_WRITE", "RC UC"},
	{"RDMA_READ", "RC"},
	{"COMP_SWAP", "RC"},
	{"FETCH_ADD", "RC"},
	{"BIND_MW", "RC UC"},
	{"LOCAL_INV", "RC UC"},
	{"FLUSH", "RC"},
	{"ATOMIC_WRITE", "RC"},
	{opRecv, "RC UC UD"},
	{opRecvImm, "RC UC"},
}

const (
	opRecv    = "RECV"
	opRecvImm = "RECV_RDMA_WITH_IMM"
)

// workNames are the names of workOps, and receives are those of receives.
var workNames, receives = func() (names []string, receives nameSet) {
	for i, op := range workOps {
		names = append(names, op.name)
		if op.name == opRecv || op.name == opRecvImm {
			receives |= 1 << i
		}
	}
	return names, receives
}()

// selected returns the verbs or operations that the rule, whose names are valid, is about.
func (r *Rule) selected() (names nameSet) {
	switch r.asked() {
	case WhereVerb:
		names, _ = selectNames(r.Verb, "a verb", verbNames)
	case WhereCompletion, WhereDevice:
		names, _ = selectNames(cmp.Or(r.Opcode, "*"), "an operation", workNames)
		for i, op := range workOps {
			if !strings.Contains(op.types, r.Type) {
				names &^= 1 << i
			}
		}
		if r.What == Delay {
			names &^= receives
		}
		if r.Event.ofSRQ() {
			names &= receives
		}
	default: // compile has those of packets
	}
	return names
}
