package rdmacm

import (
	"github.com/gorxe/gorxe/rxe"
)

// QPAttr returns the attributes that take the ID's queue pair to a state
// (rdma_init_qp_attr). Before Connect, and always for UD, they are those of INIT,
// whatever the state. EINVAL for an ID without a device, and as long as the connection
// does not know the attributes.
func (id *ID) QPAttr(target rxe.QPState) (rxe.QPAttr, rxe.QPAttrMask, error) {
	id.m.mu.Lock()
	defer id.m.unlock()
	if id.dev == nil {
		return rxe.QPAttr{}, 0, errNoDevice
	}
	if id.conn == nil || id.qpType == rxe.QPUD {
		return id.initAttr(target)
	}
	a, mask, err := id.conn.QPAttr(target)
	if err != nil {
		return rxe.QPAttr{}, 0, errno(err)
	}
	if mask&rxe.QPAttrTimeout != 0 && id.ackTimeout.set {
		a.Timeout = id.ackTimeout.value
	}
	return a, mask, nil
}

// initAttr is cma_ib_init_qp_attr.
func (id *ID) initAttr(target rxe.QPState) (rxe.QPAttr, rxe.QPAttrMask, error) {
	a := rxe.QPAttr{State: target, PortNum: 1}
	mask := rxe.QPAttrState | rxe.QPAttrPKeyIndex | rxe.QPAttrPort
	if id.qpType != rxe.QPUD {
		return a, mask | rxe.QPAttrAccessFlags, nil
	}
	if err := id.setQKey(0); err != nil {
		return a, 0, err
	}
	a.QKey = id.qkey
	return a, mask | rxe.QPAttrQKey, nil
}
