package rdmacm

import (
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/rxe"
)

// SetTOS sets the traffic class of a connection that is not yet resolved
// (rdma_set_service_type).
func (id *ID) SetTOS(tos uint8) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	id.tos = tos
	return nil
}

// SetReuseAddr lets several IDs have one address and port, until one of them listens. A
// listener cannot set it. It can be unset while the ID is idle (rdma_set_reuseaddr).
func (id *ID) SetReuseAddr(reuse bool) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.state != StateIdle && (!reuse || id.state == StateListen) {
		return id.wrongState("set the option before it listens, and unset it before it is bound")
	}
	id.reuse = reuse
	return nil
}

// SetAFOnly restricts an ID to its address family (rdma_set_afonly).
func (id *ID) SetAFOnly(only bool) error {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	if id.state != StateIdle && id.state != StateAddrBound {
		return id.wrongState("set the option before the address is resolved")
	}
	id.afOnly, id.afSet = only, true
	return nil
}

// SetAckTimeout sets the local ACK timeout of the queue pair: 4.096 µs times 2 to this
// power, of which the kernel keeps all eight bits (rdma_set_ack_timeout).
func (id *ID) SetAckTimeout(timeout uint8) error {
	if id.qpType != rxe.QPRC && id.qpType != rxe.QPXRCIni {
		return refuse(unix.EINVAL, "id", "is for UD, which has no acknowledgements", "leave the option out")
	}
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	id.ackTimeout = option{timeout, true}
	return nil
}
