// Package usersock has sockets of protocol NETLINK_USERSOCK, which stand for those of
// NETLINK_RDMA.
//
// A program gets such a socket, with all that its kernel knows of netlink sockets: addresses,
// options, poll. What the program sends is trapped, because no kernel answers at port 0. A Sender
// delivers the answers, from a socket of this process to the program's port.
//
// The package does not know what a message means, nor how a call is trapped.
package usersock
