// Package nlsocket has the sockets that programs get for NETLINK_RDMA.
//
// Such a socket is no socket of this process's network namespace. In the program it is one end of a
// pipe, which says for poll whether there are datagrams (eventfile.Level). Everything else is here:
// address, options and the datagrams themselves. So a program reaches nothing through the
// descriptor, and no other process can send to it.
//
// The package does not know what a datagram means, nor how a call is trapped.
package nlsocket
