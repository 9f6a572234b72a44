// Package rdmacm connects queue pairs by IP address, as Linux's rdma_cm does. The files
// of rdma_cm are in package ucma. With an ID, a program binds, resolves, listens and
// connects (struct rdma_cm_id). A Manager has the IDs of one network namespace, and the
// connection managers (package cm) of all its devices.
//
// The names and numbers are those of drivers/infiniband/core/cma.c, and so are the
// errors: each wraps a unix.Errno, and most say why (package refusal).
//
// One mutex, that of the Manager, guards the IDs and the connection managers. Handlers of
// events are called with the mutex held, one event at a time, in order. A handler only
// queues its event. A thread that holds the mutex takes leaf locks only. Datagrams leave
// after the mutex is unlocked (sender.go), because the device may then run queue pairs
// whose program memory does not answer.
//
// As in Linux, an ID has no event for a link that goes down or an address that is
// removed: connections time out, and new ones are refused. It has an event for a device
// that is removed.
//
// Deviations from Linux:
//   - Loopback addresses work (resolve.go). In Linux, RoCE devices cannot connect through
//     them.
//   - A listener on a loopback address accepts programs of this host only (listen.go).
//   - Between two addresses of this host, the device of the source is used
//     (resolve.go). Linux uses that of the destination, which may not exist.
package rdmacm
