package uverbs

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/quota"
)

// channel is a completion channel: its records are struct
// ib_uverbs_comp_event_desc, the handle that the program gave the CQ.
type channel struct{ *eventfile.Pipe }

const compEventSize = 8

func newChannel(budget *quota.Budget) (*channel, error) {
	p, err := eventfile.NewPipe(compEventSize, budget)
	if err != nil {
		return nil, err
	}
	return &channel{p}, nil
}

// notify tells the program of a completion on the CQ cqKey. A QP may be locked.
func (c *channel) notify(userHandle uint64, cqKey any) {
	e := eventfile.Event{Key: cqKey}
	binary.NativeEndian.PutUint64(e.Record[:], userHandle)
	c.Send(e)
}
