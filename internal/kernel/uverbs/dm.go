package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
	"github.com/gorxe/gorxe/rxe"
)

// methodDMMRReg is for devices whose driver has device memory.
var methodDMMRReg = dispatch.MethodSpec{
	Name: "DM_MR_REG", Verb: verbOf("DM_MR_REG"), Handle: on(ioctlRegDMMR),
	Attrs: []dispatch.AttrSpec{
		dispatch.Required(dispatch.Handle(uapi.AttrRegDMHandle, uapi.ObjMR, dispatch.AccessNew)),
		dispatch.Required(dispatch.Input(uapi.AttrRegDMOffset, 8)),
		dispatch.Required(dispatch.Input(uapi.AttrRegDMLength, 8)),
		dispatch.Required(dispatch.Handle(uapi.AttrRegDMPD, uapi.ObjPD, dispatch.AccessRead)),
		dispatch.Required(dispatch.Flags(uapi.AttrRegDMAccess)),
		dispatch.Required(dispatch.Handle(uapi.AttrRegDMMemory, uapi.ObjDM, dispatch.AccessRead)),
		dispatch.Required(dispatch.Output(uapi.AttrRegDMLKey, 4)),
		dispatch.Required(dispatch.Output(uapi.AttrRegDMRKey, 4)),
	},
}

// memorySpace is device memory as the address space of a region.
type memorySpace struct{ provider.DeviceMemory }

// Check implements kernel.Space.
func (m memorySpace) Check(addr, length uint64, _ bool) error {
	if size := m.Size(); addr > size || length > size-addr {
		return unix.EFAULT
	}
	return nil
}

// ioctlRegDMMR answers ibv_reg_dm_mr (uverbs_std_types_mr.c: UVERBS_METHOD_DM_MR_REG). Work
// requests name the first byte 0.
func ioctlRegDMMR(k *call) error {
	flags, err := k.Attrs.Flags(uapi.AttrRegDMAccess, uint64(accessKnown))
	if err != nil {
		return err
	}
	access := rxe.Access(flags)
	if access&rxe.AccessZeroBased == 0 {
		return kernel.Refuse(unix.EINVAL, "access", "lacks zero_based", "add IBV_ACCESS_ZERO_BASED")
	}
	if err := checkAccess(access); err != nil {
		return err
	}
	dm, ok := k.Attrs.Object(uapi.AttrRegDMMemory).Res.(provider.DeviceMemory)
	if !ok {
		return unix.EOPNOTSUPP
	}
	pd := k.Attrs.Object(uapi.AttrRegDMPD).Res.(*pdRes)
	g := region{space: memorySpace{dm}, pd: pd.pd, start: k.Attrs.U64(uapi.AttrRegDMOffset),
		length: k.Attrs.U64(uapi.AttrRegDMLength), access: access, dm: dm}
	if g.space.Check(g.start, g.length, true) != nil {
		return kernel.Refuse(unix.EINVAL, "offset and length", "the range ends behind the memory", "end the region within the memory")
	}
	mr, err := g.pd.RegMR(dm, g.start, g.length, 0, g.access)
	if err != nil {
		return err
	}
	dm.Hold()
	r := &mrRes{f: k.f, mr: mr, number: k.f.dev.numbers.mrs.Add(1), region: g}
	k.Attrs.Object(uapi.AttrRegDMHandle).Res = r
	k.f.keys.addMR(r)
	if err := dispatch.Put(&k.Call, uapi.AttrRegDMLKey, uint32(mr.LKey())); err != nil {
		return err
	}
	return dispatch.Put(&k.Call, uapi.AttrRegDMRKey, r.rkey())
}
