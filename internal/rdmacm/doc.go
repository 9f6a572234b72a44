// Package rdmacm connects queue pairs by IP address: Linux's rdma_cm without its files.
// An ID is what a program binds, resolves, listens and connects with (struct
// rdma_cm_id). A Manager has the IDs of one network namespace, and the connection
// managers (package cm) of all its devices.
//
// The names and numbers are those of drivers/infiniband/core/cma.c, and so are the
// errors: each is a unix.Errno.
//
// One mutex, that of the Manager, guards the IDs and the connection managers. Its owner
// calls the handlers of events with the mutex held, one event at a time, in order. A
// handler only queues. Under the mutex a thread takes leaf locks only. Datagrams leave
// after the mutex is unlocked (sender.go), because the device may then run queue pairs
// whose program memory does not answer.
//
// As in Linux, a link that goes down or an address that goes away is no event of an ID:
// connections time out, and new ones are refused. A device that goes away is an event.
//
// Deviations from Linux:
//   - Loopback addresses work (resolve.go). In Linux, RoCE devices cannot connect through
//     them.
//   - A listener on a loopback address hears this host only (listen.go).
//   - Between addresses of this host, the device of the source is used (resolve.go). Linux
//     uses the one of the destination, which may be none.
//   - A peer whose link-layer address changes is no event. Linux calls it unreachable.
package rdmacm
