package uverbs

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
	"github.com/gorxe/gorxe/internal/kernel/dispatch"
	"github.com/gorxe/gorxe/internal/kernel/uapi"
)

// schemaPortSpeed has what NCCL asks for first. rdma_rxe has no answer (EOPNOTSUPP), and librxe of
// rdma-core 65 does not ask. libmlx5 does.
var schemaPortSpeed = map[dispatch.MethodKey]*dispatch.MethodSpec{
	{Object: uapi.ObjDevice, Method: uapi.MethodQueryPortSpeed}: {
		Name: "QUERY_PORT_SPEED", Handle: on(ioctlQueryPortSpeed),
		Attrs: []dispatch.AttrSpec{
			dispatch.Required(dispatch.Constant(uapi.AttrQueryPortSpeedNum)),
			dispatch.Required(dispatch.Output(uapi.AttrQueryPortSpeedResp, 8)),
		},
	},
}

// speedUnit is the unit of ibv_query_port_speed, in Mb/s.
const speedUnit = 100

// ioctlQueryPortSpeed answers ibv_query_port_speed (uverbs_std_types_device.c).
func ioctlQueryPortSpeed(k *call) error {
	if err := k.f.NeedContext(); err != nil {
		return err
	}
	num, err := k.Attrs.Constant(uapi.AttrQueryPortSpeedNum, 1<<32-1)
	if err != nil {
		return err
	}
	if num != thePort {
		return kernel.Refuse(unix.EINVAL, "port_num", "is not 1", "use port 1, the only one")
	}
	a := k.f.sub.QueryPort()
	return dispatch.Put(&k.Call, uapi.AttrQueryPortSpeedResp, uint64(a.Mbps/speedUnit))
}
