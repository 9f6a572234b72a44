package umad

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/mgmt/mad"
	"github.com/gorxe/gorxe/wire"
)

// Ioctl answers ioctl(fd, cmd, arg): agents come and go (user_mad.c: ib_umad_ioctl).
func (f *File) Ioctl(c kernel.Caller, cmd uint32, arg uint64) (int64, error) {
	registers := cmd == uapi.MADRegisterAgent || cmd == uapi.MADRegisterAgent2
	if registers {
		f.budget.MakeRoom(agentCost) // without the lock: it may wait
	}
	f.registering.Lock()
	defer f.registering.Unlock()
	if f.removed && registers {
		return 0, unix.EPIPE
	}
	switch cmd {
	case uapi.MADRegisterAgent:
		return 0, f.registerAgent(c, arg)
	case uapi.MADRegisterAgent2:
		return 0, f.registerAgent2(c, arg)
	case uapi.MADUnregisterAgent:
		return 0, f.unregisterAgent(c, arg)
	case uapi.MADEnablePKey:
		return 0, f.enablePKey()
	default:
		return 0, unix.ENOTTY
	}
}

// read returns a T of the program's memory.
func read[T any](c kernel.Caller, addr uint64) (v T, err error) {
	err = c.Read(addr, uapi.BytesOf(&v))
	return v, err
}

func (f *File) registerAgent(c kernel.Caller, arg uint64) error {
	req, err := read[uapi.MADRegReq](c, arg)
	if err != nil {
		return err
	}
	return f.register(c, arg, false, &mad.Registration{
		QPN: wire.QPN(req.QPN), Class: wire.MADClass(req.Class), Version: req.Version, Methods: req.MethodMask,
		OUI: req.OUI, RMPP: req.RMPPVersion,
	})
}

func (f *File) registerAgent2(c kernel.Caller, arg uint64) error {
	req, err := read[uapi.MADRegReq2](c, arg)
	switch {
	case err != nil:
		return err
	case req.QPN > 1:
		return unix.EINVAL
	case req.Flags&^uapi.MADUserRMPP != 0:
		known := uint32(uapi.MADUserRMPP)
		if err := c.Write(arg+uapi.MADReg2Flags, uapi.BytesOf(&known)); err != nil {
			return err
		}
		return unix.EINVAL
	case f.free() < 0:
		return unix.ENOMEM
	case req.Class != 0 && req.OUI > 0xffffff:
		return unix.EINVAL
	}
	r := &mad.Registration{
		QPN: wire.QPN(req.QPN), Class: wire.MADClass(req.Class), Version: req.Version,
		OUI:  [3]byte{byte(req.OUI >> 16), byte(req.OUI >> 8), byte(req.OUI)},
		RMPP: req.RMPPVersion, UserRMPP: req.Flags&uapi.MADUserRMPP != 0,
	}
	for i, m := range req.MethodMask {
		r.Methods[2*i], r.Methods[2*i+1] = uint32(m), uint32(m>>32)
	}
	return f.register(c, arg, true, r)
}

// free returns the lowest free number for an agent; -1 if there is none.
func (f *File) free() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, a := range f.agents {
		if a == nil {
			return i
		}
	}
	return -1
}

// register makes an agent and tells the program its number. The first agent of the newer form
// enables P_Key indices.
func (f *File) register(c kernel.Caller, arg uint64, newer bool, r *mad.Registration) error {
	if r.QPN > 1 {
		return unix.EINVAL
	}
	id := f.free()
	if id < 0 {
		return unix.ENOMEM
	}
	if f.budget.TakeNow(agentCost) != nil {
		return errSpent
	}
	a, err := f.port.Register(*r, f)
	if err != nil {
		f.budget.Give(agentCost)
		return err
	}
	number := uint32(id)
	if err := c.Write(arg+uapi.MADRegID, uapi.BytesOf(&number)); err != nil {
		f.unregister(a)
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agents[id] = a
	if !f.used {
		f.used = true
		f.pkeys = f.pkeys || newer
	}
	return nil
}

func (f *File) unregisterAgent(c kernel.Caller, arg uint64) error {
	id, err := read[uint32](c, arg)
	switch {
	case err != nil:
		return err
	case id >= maxAgents:
		return unix.EINVAL
	}
	f.mu.Lock()
	a := f.agents[id]
	f.agents[id] = nil
	f.mu.Unlock()
	if a == nil {
		return unix.EINVAL
	}
	f.unregister(a)
	return nil
}

func (f *File) enablePKey() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used {
		return unix.EINVAL
	}
	f.pkeys = true
	return nil
}
