package rdmacm

// SetTOS sets the traffic class of the packets, before ResolveRoute
// (RDMA_OPTION_ID_TOS).
func (id *ID) SetTOS(tos uint8) error { return opError("SetTOS", "", id.cm.SetTOS(tos)) }

// SetReuseAddr lets IDs share an address until one of them listens
// (RDMA_OPTION_ID_REUSEADDR).
func (id *ID) SetReuseAddr(reuse bool) error {
	return opError("SetReuseAddr", "", id.cm.SetReuseAddr(reuse))
}

// SetAFOnly restricts a wildcard address to its own family, before Listen
// (RDMA_OPTION_ID_AFONLY).
func (id *ID) SetAFOnly(only bool) error { return opError("SetAFOnly", "", id.cm.SetAFOnly(only)) }

// SetAckTimeout sets the queue pair's ACK timeout, 4.096 µs times 2 to this power
// (RDMA_OPTION_ID_ACK_TIMEOUT).
func (id *ID) SetAckTimeout(timeout uint8) error {
	return opError("SetAckTimeout", "", id.cm.SetAckTimeout(timeout))
}
