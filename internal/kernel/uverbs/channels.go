package uverbs

import (
	"encoding/binary"

	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/quota"
)

// The calls that give the program event files. A descriptor cannot be taken back if the
// answer does not reach the program, so the calls probe the answer first.

func writeCreateCompChannel(k *call, _ *uapi.CreateCompChannelReq) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	if err := k.Probe(&k.Out, uapi.SizeOf[uapi.CreateCompChannelResp]()); err != nil {
		return err
	}
	ch, err := newChannel(k.f.budget)
	if err != nil {
		return err
	}
	if err := k.f.events.addChannel(ch, k.f.budget); err != nil {
		ch.Close()
		return err
	}
	fd, err := k.install(ch.Pipe)
	if err != nil {
		k.f.events.withdrawChannel(ch)
		ch.Close()
		return err
	}
	return dispatch.Respond(&k.Call, uapi.CreateCompChannelResp{FD: uint32(fd)})
}

// install gives the program the reading end of an event file.
func (k *call) install(p *eventfile.Pipe) (int32, error) {
	fd, err := k.Caller.InstallFD(p.FD())
	if err != nil {
		return -1, err
	}
	p.HandedOver()
	return fd, nil
}

// newAsync makes an asynchronous event descriptor for the program.
func (k *call) newAsync() (int32, error) {
	a, err := newAsyncFD(k.f.budget)
	if err != nil {
		return -1, err
	}
	if err := k.f.events.addAsync(a, k.f.budget); err != nil {
		a.Close()
		return -1, err
	}
	fd, err := k.install(a.Pipe)
	if err != nil {
		k.f.events.withdrawAsync(a)
		a.Close()
		return -1, err
	}
	return fd, nil
}

func ioctlAsyncEventAlloc(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	a := k.Attrs.Get(uapi.AttrAsyncEventFD)
	fd, err := k.newAsync()
	if err != nil {
		return err
	}
	a.Wire.Data = uint64(fd)
	k.Attrs.Dirty = true
	return nil
}

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
