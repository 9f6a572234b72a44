package uverbs

import (
	"github.com/gorxe/gorxe/internal/kernel/eventfile"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// The calls that give the program event files. A descriptor cannot be taken back if the
// answer does not reach the program, so the calls probe the answer first.

func writeCreateCompChannel(k *call) error {
	if _, err := request[uapi.CreateCompChannelReq](k); err != nil {
		return err
	}
	if err := k.f.needContext(); err != nil {
		return err
	}
	if err := k.probe(&k.out, uapi.SizeOf[uapi.CreateCompChannelResp]()); err != nil {
		return err
	}
	ch, err := newChannel(k.f.budget)
	if err != nil {
		return err
	}
	if err := k.f.events.addChannel(ch); err != nil {
		ch.Close()
		return err
	}
	fd, err := k.install(ch.Pipe)
	if err != nil {
		ch.Close() // the list drops it, as one that the program has closed
		return err
	}
	return respond(k, uapi.CreateCompChannelResp{FD: uint32(fd)})
}

// install gives the program the reading end of an event file.
func (k *call) install(p *eventfile.Pipe) (int32, error) {
	fd, err := k.c.InstallFD(p.FD())
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
	if err := k.f.events.addAsync(a); err != nil {
		a.Close()
		return -1, err
	}
	fd, err := k.install(a.Pipe)
	if err != nil {
		k.f.events.withdraw(a)
		a.Close() // the list drops it, as one that the program has closed
		return -1, err
	}
	return fd, nil
}

func ioctlAsyncEventAlloc(k *call) error {
	if err := k.f.needContext(); err != nil {
		return err
	}
	a := k.attrs.get(uapi.AttrAsyncEventFD)
	fd, err := k.newAsync()
	if err != nil {
		return err
	}
	a.wire.Data = uint64(fd)
	k.attrs.dirty = true
	return nil
}
