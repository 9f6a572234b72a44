package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind says what a Record is about.
type Kind string

// The kinds.
const (
	Refusal    Kind = "refusal"    // a verb failed
	Completion Kind = "completion" // a work request completed with an error
	Request    Kind = "request"    // a queue pair refused a request of its peer
	Overflow   Kind = "overflow"   // a completion queue was full
)

// Side is the side at fault, as far as this device can know.
type Side string

// The sides.
const (
	Program     Side = "program"         // the program that the record belongs to
	Peer        Side = "peer"            // the other end of the connection
	Network     Side = "network"         // packets were lost between them
	Unreachable Side = "peer or network" // no answer came, for either reason
	Both        Side = "both programs"   // they do not agree
	Rule        Side = "rule"            // a fault rule
	Limit       Side = "limit"           // of the machine, the daemon or the user
)

// Record is one refusal or failure.
type Record struct {
	Time    time.Time `json:"time"`
	Count   uint64    `json:"count"` // of equal ones in a row; Time is that of the first
	Kind    Kind      `json:"kind"`
	PID     int       `json:"pid,omitempty"`
	Program string    `json:"program,omitempty"`
	Role    string    `json:"role,omitempty"` // of the program, in gorxe pair
	Device  string    `json:"device,omitempty"`
	Fault   Side      `json:"fault"`

	// Of a refusal.
	Verb     string `json:"verb,omitempty"`
	Errno    string `json:"errno,omitempty"`
	Argument string `json:"argument,omitempty"`
	Given    string `json:"given,omitempty"`

	// Of work.
	QPN       uint32 `json:"qpn,omitempty"`
	Status    string `json:"status,omitempty"` // as IBV_WC_RETRY_EXC_ERR
	Operation string `json:"operation,omitempty"`
	WRID      uint64 `json:"wr_id,omitempty"`
	PSN       uint32 `json:"psn,omitempty"`
	// of the peer, or to the peer, as "NAK: remote access error"
	Answer   string `json:"answer,omitempty"`
	Retries  int    `json:"retries,omitempty"`
	Peer     string `json:"peer,omitempty"`
	PeerQPN  uint32 `json:"peer_qpn,omitempty"`
	AfterEnd bool   `json:"after_end,omitempty"` // the program had ended before

	What string `json:"what"` // what happened, without a full stop
	Fix  string `json:"fix,omitempty"`
}

// String returns the record as a sentence of less than 30 words.
func (r *Record) String() string {
	if r.Fix == "" {
		return r.What + "."
	}
	return r.What + "; " + r.Fix + "."
}

// NameOf returns the name of a process for a message. The role in gorxe pair comes first: the user
// knows the programs by it.
func NameOf(role, program string, pid int) string {
	if role == "" {
		return fmt.Sprintf("%s[%d]", program, pid)
	}
	return fmt.Sprintf("%s (%s, pid %d)", role, program, pid)
}

// Lost reports whether the record may follow from packets that did not arrive, or from messages
// that found no receive.
func (r *Record) Lost() (packets, receives bool) {
	return r.Fault == Unreachable || r.Fault == Network, r.Status == "IBV_WC_RNR_RETRY_EXC_ERR"
}

// Refuser returns the record of the queue pair that refused the work of r with a NAK; nil: the list
// has none. That queue pair knows more of the reason than its NAK says.
func (r *Record) Refuser(list []Record) *Record {
	if r.Answer == "" || r.Operation == "" || r.Operation == receive {
		return nil
	}
	for i := range list {
		o := &list[i]
		if (o.Kind == Request || o.Operation == receive) && r.QPN == o.PeerQPN && r.PeerQPN == o.QPN && r.PSN == o.PSN {
			return o
		}
	}
	return nil
}

// Join gives each record of a program whose work was refused the remedy that the other end knows.
func Join(list []Record) {
	for i := range list {
		if o := list[i].Refuser(list); o != nil && o.Fix != "" && list[i].Fault != Rule {
			list[i].Fix = o.Fix
		}
	}
}

// Blame says that fault rules explain the record.
func (r *Record) Blame(rules []string) {
	const most = 120 // bytes of them all
	if len(rules) == 0 {
		return
	}
	names := "fault rule " + rules[0]
	if len(rules) > 1 {
		names = "fault rules " + strings.Join(rules, ", ")
	}
	if end := most; len(names) > end {
		for !utf8.RuneStart(names[end]) {
			end--
		}
		names = names[:end] + "…"
	}
	r.Fault, r.Fix = Rule, seeRules
	r.What += "; on purpose, by " + names
}

// same reports whether two records differ in their time only, or in numbers that grow.
func (r *Record) same(other *Record) bool {
	a, b := *r, *other
	a.Time, b.Time = time.Time{}, time.Time{}
	a.Count, b.Count = 0, 0
	return a == b
}

// joined puts what is wrong behind what it is wrong with.
func joined(subject, why string) string {
	if subject == "" || why == "" {
		return subject + why
	}
	for _, verb := range []string{"is ", "exceeds ", "cannot ", "has ", "belongs "} {
		if strings.HasPrefix(why, verb) {
			return subject + " " + why
		}
	}
	return subject + ": " + why
}
