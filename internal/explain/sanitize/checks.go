package sanitize

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how sure a check is.
type Level string

// The levels. Only an error changes the exit status.
const (
	Error   Level = "error"   // the program breaks a rule of the specification
	Warning Level = "warning" // it works as long as nothing is lost or late
	Note    Level = "note"    // a reader should know it
)

// Check is one kind of misuse.
type Check struct {
	Name  string
	Group string
	Level Level
	What  string // that it finds
	See   string
	Off   bool // it is made only if its name, its group or all is given
}

// The names of the checks.
const (
	keyRange          = "key-range"
	keyRight          = "key-right"
	keyDomain         = "key-domain"
	keyWindow         = "key-window"
	keyUnknown        = "key-unknown"
	useAfterDereg     = "use-after-dereg"
	refusedByPeer     = "refused-by-peer"
	sendBufferChanged = "send-buffer-changed"
	recvTooShort      = "recv-too-short"
	unmapped          = "unmapped"
	freedWhilePosted  = "freed-while-posted"
	leak              = "leak"
	cqOverflow        = "cq-overflow"
	cqTooSmall        = "cq-too-small"
	noSignal          = "no-signal"
	rnr               = "rnr"
	qpAccess          = "qp-access"
	rdAtomic          = "rd-atomic"
	pathMTU           = "path-mtu"
	timeoutZero       = "timeout-zero"
	retryZero         = "retry-zero"

	readEarly            = "read-early"
	overlappingReads     = "overlapping-reads"
	destroyedWhilePosted = "destroyed-while-posted"
	badRequest           = "bad-request"
	psnMismatch          = "psn-mismatch"
	rnrRetryZero         = "rnr-retry-zero"
	raceWrite            = "race-write"
	raceRead             = "race-read"
	raceAtomic           = "race-atomic"
	overlappingReceives  = "overlapping-receives"
	eventsUnacknowledged = "events-not-acknowledged"
	eventIgnored         = "event-ignored"
	recvBufferTouched    = "recv-buffer-touched"
	rnrTimerZero         = "rnr-timer-zero"
	gidLinkLocal         = "gid-link-local"
	qkeyMismatch         = "qkey-mismatch"
	threadDomain         = "thread-domain"
)

// checks are all checks, by groups.
var checks = []Check{
	{keyRange, "keys", Error, "an access reaches outside of its region", "IBA 10.6.3, ibv_reg_mr(3)", false},
	{keyRight, "keys", Error, "a region lacks the right for an access", "IBA 10.6.3, ibv_reg_mr(3)", false},
	{keyDomain, "keys", Error, "the key is of another protection domain", "IBA 10.2.3, ibv_alloc_pd(3)", false},
	{keyWindow, "keys", Error, "the window is not bound, or elsewhere", "IBA 10.6.7, ibv_bind_mw(3)", false},
	{keyUnknown, "keys", Error, "the key never was one", "IBA 10.6.3, ibv_reg_mr(3)", false},
	{useAfterDereg, "keys", Error, "the region was deregistered before", "IBA 10.6.7, ibv_dereg_mr(3)", false},
	{refusedByPeer, "keys", Error, "a peer in another run refused", "IBA 9.7.5.2, ibv_post_send(3)", false},
	{sendBufferChanged, "buffers", Error, "the program changed a posted buffer", "IBA 10.7.3.1, ibv_post_send(3)", false},
	{readEarly, "buffers", Error, "data of a READ or atomic is sent before it came", "IBA 10.8.3.3, ibv_post_send(3)", false},
	{overlappingReads, "buffers", Warning, "two READs or atomics have one target", "IBA 10.8.3.3, ibv_post_send(3)", true},
	{overlappingReceives, "buffers", Warning, "a receive shares memory with another one, a READ or a send", "IBA 10.8.3.3, ibv_post_recv(3)", true},
	{recvBufferTouched, "buffers", Warning, "the program changed the memory of a posted receive", "IBA 10.8.3.3, ibv_post_recv(3)", true},
	{recvTooShort, "buffers", Error, "a message exceeds its receive", "IBA 9.9.3, ibv_post_recv(3)", false},
	{unmapped, "buffers", Error, "registered memory is not mapped any more", "IBA 10.6.6, ibv_reg_mr(3)", false},
	{freedWhilePosted, "lifetime", Error, "a region is deregistered while posted", "IBA 10.6.7, ibv_dereg_mr(3)", false},
	{destroyedWhilePosted, "lifetime", Warning, "a queue pair is destroyed with work under way", "IBA 10.2.4.4, ibv_destroy_qp(3)", false},
	{leak, "lifetime", Note, "an object is left at the end", "ibv_close_device(3)", false},
	{cqOverflow, "queues", Error, "a completion found its queue full", "IBA 11.6.3.1, ibv_create_cq(3)", false},
	{cqTooSmall, "queues", Warning, "more signaled work than its queue holds", "IBA 10.8.1, ibv_create_cq(3)", false},
	{noSignal, "queues", Error, "nothing signaled frees the send queue", "IBA 10.8.6, ibv_post_send(3)", false},
	{eventsUnacknowledged, "queues", Error, "an object is destroyed, and waits for its events for ever", "ibv_ack_cq_events(3), ibv_get_async_event(3)", false},
	{eventIgnored, "queues", Warning, "an event of srq_limit was never read", "ibv_modify_srq(3), ibv_get_async_event(3)", false},
	{badRequest, "queues", Error, "the device refused a work request as malformed", "IBA 11.4.1.1, ibv_post_send(3)", false},
	{threadDomain, "queues", Warning, "two threads post in one thread domain at once", "ibv_alloc_td(3)", false},
	{rnr, "queues", Warning, "no receive came before the retries ended", "IBA 9.7.5.2.8, ibv_post_recv(3)", false},
	{qpAccess, "state", Error, "qp_access_flags lack a right", "IBA 9.7.4.1.3, ibv_modify_qp(3)", false},
	{rdAtomic, "state", Error, "the peer exceeds max_dest_rd_atomic", "IBA 9.7.4.1.6, ibv_modify_qp(3)", false},
	{pathMTU, "state", Error, "the ends' path MTUs differ", "IBA 9.6.1.5, ibv_modify_qp(3)", false},
	{psnMismatch, "state", Error, "sq_psn of one end is not rq_psn of the other", "IBA 9.7.2, ibv_modify_qp(3)", false},
	{qkeyMismatch, "state", Error, "a datagram has another Q_Key than its receiver", "IBA 10.2.5, ibv_post_send(3)", false},
	{timeoutZero, "state", Warning, "a lost packet is never sent again", "IBA 9.7.6.1.3, ibv_modify_qp(3)", false},
	{retryZero, "state", Warning, "the first loss ends the connection", "IBA 9.7.5.2.3, ibv_modify_qp(3)", false},
	{rnrRetryZero, "state", Warning, "the first late receive ends the connection", "IBA 9.7.5.2.8, ibv_modify_qp(3)", false},
	{rnrTimerZero, "state", Note, "a late receive stops its sender for 0.66 s", "IBA 9.7.5.2.8, ibv_modify_qp(3)", false},
	{gidLinkLocal, "state", Note, "the path ends at the routers of the link", "IBA A17.4.2, ibv_modify_qp(3)", false},
	{raceWrite, "races", Warning, "two requests write to the same memory", "IBA 10.8.3.3, ibv_post_send(3)", true},
	{raceRead, "races", Warning, "a request reads what a WRITE, READ or atomic changes", "IBA 10.8.3.3, ibv_post_send(3)", true},
	{raceAtomic, "races", Warning, "an atomic beside a WRITE", "IBA 9.4.5, ibv_post_send(3)", true},
}

// checkOf returns the check of a name; nil: there is none.
func checkOf(name string) *Check {
	for i := range checks {
		if checks[i].Name == name {
			return &checks[i]
		}
	}
	return nil
}

// Selection is a set of checks.
type Selection map[string]bool

// ParseSelection reads names of checks or groups with commas between them, or all. A name that
// begins with a minus is taken away. What begins so is taken away from the default, which is also
// what an empty text means: all checks but those that are off.
func ParseSelection(text string) (Selection, error) {
	words := strings.Split(text, ",")
	chosen := make(Selection)
	if text == "" || strings.HasPrefix(words[0], "-") {
		words = append([]string{Default}, words...)
	}
	for _, word := range words {
		if word == "" {
			continue
		}
		name, off := strings.CutPrefix(word, "-")
		if !known(name) {
			return nil, fmt.Errorf("%q is no check: give all, default, a group (%s) or a name (%s)", name, strings.Join(groups(), ", "), strings.Join(names(), ", "))
		}
		for i := range checks {
			if c := &checks[i]; c.is(name) {
				chosen[c.Name] = !off
			}
		}
	}
	return chosen, nil
}

// Default is the word for all checks but those that are off.
const Default = "default"

// is reports whether a word means the check.
func (c *Check) is(word string) bool {
	return word == "all" || word == c.Name || word == c.Group || word == Default && !c.Off
}

// known reports whether a word means a check.
func known(word string) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.is(word) })
}

func names() (list []string) {
	for i := range checks {
		list = append(list, checks[i].Name)
	}
	return list
}

func groups() (list []string) {
	for i := range checks {
		if !slices.Contains(list, checks[i].Group) {
			list = append(list, checks[i].Group)
		}
	}
	return list
}
