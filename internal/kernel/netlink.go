package kernel

// NetlinkRequest is what a program sent in one call on a socket of protocol NETLINK_RDMA.
type NetlinkRequest struct {
	Data []byte // one message or several
	Port uint32 // of the program's socket
	// Dumping says that the socket has not taken all of an earlier dump yet.
	Dumping bool
	// CapAck and ExtAck are the socket's options NETLINK_CAP_ACK and NETLINK_EXT_ACK.
	CapAck, ExtAck bool
}

// NetlinkReply takes a datagram for the socket that sent a request. A datagram of a dump waits
// until the program has read those before it; another one is dropped if the socket is full, as
// in the kernel (netlink_unicast with MSG_DONTWAIT). It is the receiver's from then on.
type NetlinkReply func(datagram []byte, dump bool)
