package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel/uapi"
	"github.com/gorxe/gorxe/rxe"
)

// TestPortSpeed: the speed in units of 100 Mb/s, for port 1 alone.
func TestPortSpeed(t *testing.T) {
	d, engine := newDevice(t)
	u := &user{opened(t, d), forms[1]}
	ask := func(port uint64) (uint64, error) {
		u.reset()
		list := []uapi.IoctlAttr{num(uapi.AttrQueryPortSpeedNum, port), u.out(uapi.AttrQueryPortSpeedResp, 8)}
		if err := u.ioctlList(uapi.ObjDevice, uapi.MethodQueryPortSpeed, list); err != nil {
			return 0, err
		}
		return get[uint64](u.program, list[1]), nil
	}
	for _, mbps := range []int{2500, 400_000, 800_000, 1_600_000} {
		engine.SetSpeed(rxe.LinkSpeedFor(mbps))
		if got, err := ask(1); got != uint64(mbps/100) || err != nil {
			t.Errorf("%d Mb/s: %d, %v", mbps, got, err)
		}
	}
	for _, port := range []uint64{0, 2, 257, 1 << 32} {
		if _, err := ask(port); err != unix.EINVAL {
			t.Errorf("port %d: %v", port, err)
		}
	}
	short := []uapi.IoctlAttr{num(uapi.AttrQueryPortSpeedNum, 1), u.out(uapi.AttrQueryPortSpeedResp, 4)}
	u.want(u.ioctlList(uapi.ObjDevice, uapi.MethodQueryPortSpeed, short), unix.EINVAL)
	fresh := newProgram(t, d)
	fresh.reset()
	fresh.want(fresh.ioctl(uapi.ObjDevice, uapi.MethodQueryPortSpeed, num(uapi.AttrQueryPortSpeedNum, 1), fresh.out(uapi.AttrQueryPortSpeedResp, 8)), unix.EINVAL)
}

// TestCQFlags: rdma_rxe refuses the flags of completion queues that the kernel knows
// (rxe_verbs.c:rxe_create_cq).
func TestCQFlags(t *testing.T) {
	d, _ := newDevice(t)
	u := &user{opened(t, d), forms[1]}
	for flags, want := range map[uint32]error{0: nil, uapi.CQFlagTimestamp: unix.EOPNOTSUPP, uapi.CQFlagIgnoreOverrun: unix.EOPNOTSUPP, 4: unix.EINVAL} {
		u.reset()
		err := u.ioctl(uapi.ObjCQ, uapi.MethodCQCreate, newObj(uapi.AttrCreateCQHandle), num32(uapi.AttrCreateCQCQE, 10), num(uapi.AttrCreateCQUserHandle, 5),
			num32(uapi.AttrCreateCQCompVector, 0), num32(uapi.AttrCreateCQFlags, flags), u.out(uapi.AttrCreateCQRespCQE, 4), u.out(uapi.AttrUHWOut, 16))
		if err != want {
			t.Errorf("flags %d: %v, want %v", flags, err, want)
		}
	}
}
