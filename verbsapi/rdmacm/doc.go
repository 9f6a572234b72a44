// Package rdmacm connects queue pairs by address, as librdmacm does for C programs. The
// devices are those that the program has opened with package verbsapi. The peer may be a
// Go program, a C program under gorxe run, or any host whose kernel has rdma_cm.
//
// There are two ways to use it. In the first, a server calls Listen, Listener.Accept and
// Request.Accept, and a client calls Dial. Both get a Conn, whose queue pair is ready.
//
// The second has a Go call for each call and event of librdmacm: NewEventChannel,
// EventChannel.CreateID, ID.ResolveAddr, EventChannel.GetEvent and so on. It is for datagrams (UD),
// multicast, and programs that control each step. XRC has both ways. docs/verbs.md lists each C
// call with its Go call. As in librdmacm, ID.CreateQP makes a queue pair that follows the
// connection's states by itself.
//
// Errors of calls are OpErrors that unwrap to the errno that librdmacm would set
// (golang.org/x/sys/unix).
package rdmacm
