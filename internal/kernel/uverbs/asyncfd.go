package uverbs

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/quota"
)

// asyncFD carries the asynchronous events of a context. Its records are struct
// ib_uverbs_async_event_desc: the handle that the program gave the object (for the port,
// its number), and what happened.
type asyncFD struct{ *eventfile.Pipe }

const (
	asyncEventSize = 16
	asyncEventType = 8
)

func newAsyncFD(budget *quota.Budget) (*asyncFD, error) {
	p, err := eventfile.NewPipe(asyncEventSize, budget)
	if err != nil {
		return nil, err
	}
	return &asyncFD{p}, nil
}

// push tells the program of an event about objKey. Events of the port have the key nil,
// and are not counted. A QP may be locked.
func (a *asyncFD) push(element uint64, eventType uint32, objKey any) {
	e := asyncEvent(element, eventType, objKey)
	if objKey == nil {
		a.SendAsync(e)
		return
	}
	a.Send(e)
}

// tell is push for the port or the device. It may block as long as the program likes.
func (a *asyncFD) tell(element uint64, eventType uint32) {
	a.Send(asyncEvent(element, eventType, nil))
}

func asyncEvent(element uint64, eventType uint32, objKey any) eventfile.Event {
	e := eventfile.Event{Key: objKey}
	binary.NativeEndian.PutUint64(e.Record[:], element)
	binary.NativeEndian.PutUint32(e.Record[asyncEventType:], eventType)
	return e
}

// setAsync says where the events of an object go; nil: nowhere.
func setAsync(o *dispatch.Object, a *asyncFD) {
	if a != nil {
		o.Async = a
	}
}
