package fault

import (
	"fmt"
	"slices"
	"strings"
)

// AsyncEvent is an asynchronous event of a rule; 0 is none.
type AsyncEvent uint8

// The events that rules raise.
const (
	QPFatal AsyncEvent = iota + 1
	QPReqErr
	QPAccessErr
	CQErr
	SRQErr
	SRQLimitReached
	DeviceFatal
)

// eventPrefix begins the names of enum ibv_event_type.
const eventPrefix = "IBV_EVENT_"

// eventNames are the events by their numbers. The first three are those of a queue pair.
var eventNames = []string{
	"", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "CQ_ERR", "SRQ_ERR", "SRQ_LIMIT_REACHED", "DEVICE_FATAL",
}

func (e AsyncEvent) String() string { return eventPrefix + eventNames[e] }

// ofSRQ reports whether the event is one of a shared receive queue.
func (e AsyncEvent) ofSRQ() bool { return e == SRQErr || e == SRQLimitReached }

// setEvent reads the event that a completion rule or a device rule raises.
func setEvent(r *Rule, v string) error {
	names := eventNames[1:]
	if r.Where == WhereCompletion {
		names = eventNames[1 : QPAccessErr+1]
	}
	if i := slices.Index(names, strings.TrimPrefix(v, eventPrefix)); i >= 0 {
		r.Event = AsyncEvent(i + 1)
		return nil
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = eventPrefix + name
	}
	return fmt.Errorf("give %s", oneOf(full))
}
