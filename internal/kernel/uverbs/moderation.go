package uverbs

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/internal/provider"
)

// withModeration adds EX_MODIFY_CQ to the tables of a device whose driver has it
// (provider.Moderates). Other devices keep the tables of rdma_rxe.
func withModeration(t dispatch.Tables) dispatch.Tables {
	t.ExCommands = slices.Clone(t.ExCommands)
	for len(t.ExCommands) <= uapi.CmdExModifyCQ {
		t.ExCommands = append(t.ExCommands, dispatch.Command{Name: "unsupported", Handle: on(notSupported)})
	}
	c := extended("EX_MODIFY_CQ", reading(writeExModifyCQ))
	c.Verb, c.Req = verbOf(c.Name), uapi.SizeOf[uapi.ModifyCQReq]()
	t.ExCommands[uapi.CmdExModifyCQ] = c
	return t
}

// writeExModifyCQ is uverbs_cmd.c:ib_uverbs_ex_modify_cq.
func writeExModifyCQ(k *call, req *uapi.ModifyCQReq) error {
	const moderate = 1 // IB_CQ_MODERATE
	switch {
	case req.AttrMask == 0 || req.Reserved != 0:
		return kernel.Refuse(unix.EINVAL, "attr_mask", "is 0", "use IBV_CQ_ATTR_MODERATE")
	case req.AttrMask > moderate:
		return unix.EOPNOTSUPP
	}
	r, err := dispatch.Held[*cqRes](&k.Call, uapi.ObjCQ, req.CQHandle)
	if err != nil {
		return err
	}
	m, ok := r.mem.(provider.Moderated)
	if !ok {
		return unix.EOPNOTSUPP
	}
	return m.Moderate(req.CQCount, req.CQPeriod)
}
