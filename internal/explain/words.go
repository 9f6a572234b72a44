package explain

import (
	"slices"
	"strings"
	"sync"

	"github.com/gorxe/gorxe/rxe"
)

// Word is a name that programs and tools print, with what it means and what to do.
type Word struct {
	Name string
	// "completion status", "asynchronous event", "errno", "acknowledgement", "event of RDMA CM",
	// "kind of doorbells", "reject reason of RDMA CM", "verb", "error line", "exit code of gorxe"
	Kind    string
	Number  int      // of a status, an errno, a reject reason or an exit code; else -1
	Text    string   // of ibv_wc_status_str or strerror
	Says    []string // regular expressions: lines that mean it have one of them, in lower case
	Meaning string
	Fix     string
	foreign bool // an errno that no verb of this device returns
}

const (
	statusKind = "completion status"
	errnoKind  = "errno"
	rejectKind = "reject reason of RDMA CM"
)

// statusWords are enum ibv_wc_status, in its order.
var statusWords = []Word{
	{Name: "IBV_WC_SUCCESS", Meaning: "The work request is done."},
	{Name: "IBV_WC_LOC_LEN_ERR", Meaning: "A local buffer does not fit the message: a receive is shorter than what the peer sent, or a request is longer than max_msg_sz.", Fix: "Post larger receive buffers, and compare the lengths of the work request and of the message."},
	{Name: "IBV_WC_LOC_QP_OP_ERR", Meaning: "The queue pair found the work request inconsistent. The kernel's rdma_rxe also says so of a receive buffer too short for the message.", Fix: "Check opcode, send_flags, num_sge and the lengths."},
	{Name: "IBV_WC_LOC_EEC_OP_ERR", Meaning: "An error of reliable datagrams, which this device does not have."},
	{Name: "IBV_WC_LOC_PROT_ERR", Meaning: "A local buffer is not accessible with its lkey.", Fix: "Check lkey, address, length, protection domain and IBV_ACCESS_LOCAL_WRITE. Keep the region until the completion."},
	{Name: "IBV_WC_WR_FLUSH_ERR", Meaning: "The work request was not executed, because the queue pair was in ERR: an earlier one failed, or modify_qp said so.", Fix: "Look for the first completion with another status."},
	{Name: "IBV_WC_MW_BIND_ERR", Meaning: "A memory window cannot be bound or invalidated.", Fix: "Check its region, the rights, and IBV_ACCESS_MW_BIND."},
	{Name: "IBV_WC_BAD_RESP_ERR", Meaning: "The peer's answer does not fit the request.", Fix: "Check a capture with gorxe pcap check: the peer's device is at fault."},
	{Name: "IBV_WC_LOC_ACCESS_ERR", Meaning: "A WRITE with immediate data from the peer named memory that it may not write. The receive work request is this one.", Fix: "Check rkey, remote address and length that the peer uses, and the rights of the region."},
	{Name: "IBV_WC_REM_INV_REQ_ERR", Meaning: "The peer refused the request as invalid, with a NAK.", Fix: "Check the peer's receive buffers, qp_access_flags and max_dest_rd_atomic, and the path MTU of both ends."},
	{Name: "IBV_WC_REM_ACCESS_ERR", Meaning: "The peer refused the rkey, the range or the right, with a NAK.", Fix: "Check rkey, remote address and length, and the rights of the peer's region."},
	{Name: "IBV_WC_REM_OP_ERR", Meaning: "The peer could not execute the request, for a reason of its own.", Fix: "Check the lkey of the peer's receive buffer; with the kernel's rdma_rxe as the peer, its length, too."},
	{Name: "IBV_WC_RETRY_EXC_ERR", Meaning: "The peer answered none of retry_cnt retries, or packets were lost again and again.", Fix: "See whether the peer's queue pair exists and is in RTR, whether both know the other's number, GID and PSN, and whether packets get through."},
	{Name: "IBV_WC_RNR_RETRY_EXC_ERR", Meaning: "The peer had no receive work request, rnr_retry times in a row.", Fix: "Let the peer post receives earlier, or set rnr_retry to 7, which is without limit."},
	{Name: "IBV_WC_LOC_RDD_VIOL_ERR", Meaning: "An error of reliable datagrams, which this device does not have."},
	{Name: "IBV_WC_REM_INV_RD_REQ_ERR", Meaning: "An error of reliable datagrams, which this device does not have."},
	{Name: "IBV_WC_REM_ABORT_ERR", Meaning: "The peer aborted the request."},
	{Name: "IBV_WC_INV_EECN_ERR", Meaning: "An error of reliable datagrams, which this device does not have."},
	{Name: "IBV_WC_INV_EEC_STATE_ERR", Meaning: "An error of reliable datagrams, which this device does not have."},
	{Name: "IBV_WC_FATAL_ERR", Meaning: "The device failed."},
	{Name: "IBV_WC_RESP_TIMEOUT_ERR", Meaning: "No answer came in time."},
	{Name: "IBV_WC_GENERAL_ERR", Meaning: "An error that no other status describes."},
}

// eventWords are those of enum ibv_event_type that this device raises.
var eventWords = []Word{
	{Name: "IBV_EVENT_CQ_ERR", Meaning: "A completion queue was full when a completion came.", Fix: "Create it with more entries, or poll sooner."},
	{Name: "IBV_EVENT_QP_FATAL", Meaning: "A queue pair failed: its completion queue was full, or the device failed.", Fix: "Create the completion queue with more entries."},
	{Name: "IBV_EVENT_QP_REQ_ERR", Meaning: "The peer sent an invalid request, and the queue pair is in ERR.", Fix: "Check qp_access_flags, max_dest_rd_atomic, and the peer's path MTU."},
	{Name: "IBV_EVENT_QP_ACCESS_ERR", Meaning: "The peer named a key, a range or a right that it does not have, and the queue pair is in ERR.", Fix: "Check what the peer was told of rkey, address and length."},
	{Name: "IBV_EVENT_COMM_EST", Meaning: "The first packet came to a queue pair in RTR.", Fix: "Take it to RTS."},
	{Name: "IBV_EVENT_SQ_DRAINED", Meaning: "The send queue of a queue pair in SQD has no work under way."},
	{Name: "IBV_EVENT_DEVICE_FATAL", Meaning: "The device is gone: the daemon has ended."},
	{Name: "IBV_EVENT_PORT_ACTIVE", Meaning: "The port can carry traffic."},
	{Name: "IBV_EVENT_PORT_ERR", Meaning: "The port is down.", Fix: "See ip link."},
	{Name: "IBV_EVENT_SRQ_ERR", Meaning: "A shared receive queue failed."},
	{Name: "IBV_EVENT_SRQ_LIMIT_REACHED", Meaning: "A shared receive queue has fewer work requests than srq_limit.", Fix: "Post more, and set the limit again."},
	{Name: "IBV_EVENT_QP_LAST_WQE_REACHED", Meaning: "A queue pair in ERR will take nothing more from its shared receive queue."},
	{Name: "IBV_EVENT_GID_CHANGE", Meaning: "The GID table changed: an address came or went."},
	{Name: "IBV_EVENT_DEVICE_SPEED_CHANGE", Meaning: "The speed of the port changed.", Fix: "Ask for it again."},
}

// doorbellWords are how doorbells reach a device, as gorxe status says it.
var doorbellWords = []Word{
	{Name: "direct", Meaning: "A post writes to a file, which wakes a thread of the daemon. The program goes on, and a post returns no error of the device."},
	{Name: "trapped", Meaning: "The program's write waits until the daemon has taken the work request. A post returns the errors of rdma_rxe.", Fix: "For more messages a second: gorxe run --doorbells=direct."},
	{Name: "woken", Meaning: "A post to an adapter is a store. A thread of the daemon looks for it; the first one after a millisecond wakes the thread by a page fault."},
	{Name: "polled", Meaning: "A post to an adapter is a store, for which a thread of the daemon looks: up to 10 ms later if the program was idle.", Fix: "Linux 5.19 or newer on x86-64, with userfaultfd and ptrace allowed, and no debugger or strace when the program starts."},
}

// nakWordList are the NAK codes of the AETH.
var nakWordList = []Word{
	{Name: "NAK_PSN_SEQUENCE_ERROR", Meaning: "A packet before this one is missing. The peer sends again from there.", Fix: "None, unless there are many: then the network loses packets."},
	{Name: "NAK_INVALID_REQUEST", Meaning: "The responder does not allow the operation, or its length or order is wrong.", Fix: "Check qp_access_flags and max_dest_rd_atomic of the responder."},
	{Name: "NAK_REMOTE_ACCESS_ERROR", Meaning: "The responder has no such rkey, or the range or right is not granted.", Fix: "Check rkey, address and length of the request."},
	{Name: "NAK_REMOTE_OPERATIONAL_ERROR", Meaning: "The responder could not execute the request.", Fix: "Check its receive buffer."},
	{Name: "RNR_NAK", Meaning: "The responder has no receive work request. The requester waits and tries again.", Fix: "Post receives earlier."},
}

// Words returns all words.
func Words() []Word { return slices.Clone(allWords()) }

var allWords = sync.OnceValue(func() (list []Word) {
	add := func(kind string, words []Word) {
		for i, w := range words {
			switch w.Kind = kind; kind {
			case statusKind:
				w.Number, w.Text = i, rxe.WCStatus(i).String()
				if says := statusSays[rxe.WCStatus(i)]; says != "" {
					w.Says = []string{says}
				}
			case errnoKind, rejectKind, exitKind: // it has its number
			default:
				w.Number = -1
			}
			list = append(list, w)
		}
	}
	add(statusKind, statusWords)
	add("asynchronous event", eventWords)
	add("acknowledgement", nakWordList)
	add("kind of doorbells", doorbellWords)
	add("event of RDMA CM", cmEventWords)
	add(rejectKind, rejectWords)
	add(verbKind, verbWords)
	for i := range list {
		if w := &list[i]; w.Kind == verbKind && w.Fix == "" {
			w.Fix = seeExplain
		}
	}
	add(lineKind, lineWords)
	add(errnoKind, errnoList())
	add(exitKind, exitWords)
	return list
})

// IsName reports whether a word is a name, and not a line that a program prints or an exit code.
func (w *Word) IsName() bool { return w.Kind != lineKind && w.Kind != exitKind }

// Prefixes are those of the names, which Find does not need.
var Prefixes = []string{"", "IBV_", "IBV_WC_", "IBV_EVENT_", "RDMA_CM_EVENT_", "IB_CM_REJ_", "RDMA_"}

// Find returns the words with a name, in any case, with or without its prefix. Statuses and errnos
// are found by their text too, as ibv_wc_status_str and strerror have it. A number finds the
// status, the errno and the reject reason that have it: programs print any of them. So does a
// negative errno, and an exit code of gorxe.
func Find(name string) (list []Word) {
	all := allWords()
	if list, ok := number(name, all); ok {
		return list
	}
	// Names of Linux for the same number.
	for alias, usual := range map[string]string{"EOPNOTSUPP": "ENOTSUP", "EWOULDBLOCK": "EAGAIN", "EDEADLOCK": "EDEADLK"} {
		if strings.EqualFold(name, alias) {
			name = usual
		}
	}
	for _, w := range all {
		for _, prefix := range Prefixes {
			if strings.EqualFold(prefix+name, w.Name) {
				return append(list, w)
			}
		}
	}
	for _, w := range all {
		if w.Text != "" && strings.EqualFold(name, w.Text) {
			return append(list, w)
		}
	}
	return list
}

func wordOf(s rxe.WCStatus) *Word {
	if int(s) < len(statusWords) {
		return &statusWords[s]
	}
	return nil
}

// sentence returns a part of a sentence as one.
func sentence(part string) string {
	if part == "" {
		return ""
	}
	return strings.ToUpper(part[:1]) + part[1:] + "."
}
