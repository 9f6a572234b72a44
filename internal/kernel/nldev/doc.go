// Package nldev answers the messages of NETLINK_RDMA (drivers/infiniband/core/nldev.c): devices,
// ports, character devices, resources and counters, as iproute2's rdma and libibverbs ask for
// them.
//
// The package is pure: requests and answers are bytes, and a Source has what they tell. It does
// not know how messages reach a program, nor which resources the program may see.
//
//   - request.go has the typed views of messages and attributes, and the attributes' policy.
//   - reply.go builds messages.
//   - answer.go has the table of commands, the errors and the dumps.
//   - device.go, resource.go and stat.go have the commands.
package nldev
