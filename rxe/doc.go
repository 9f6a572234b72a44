// Package rxe is the RDMA device: protection domains, memory regions and
// windows, completion queues, shared receive queues, address handles and the
// queue pairs with their requester, responder and completer.
//
// A packet that arrives goes Device.Receive (receive.go) -> the QP it names ->
// responder*.go for requests, completer.go for responses. A work request goes
// QP.PostSend (sendqueue.go) -> requester.go -> outbox.go -> Link. Whoever has
// the event (a caller that posts, a received batch, a deadline) takes the QP's
// lock and runs it to completion; what one QP says to another of the same
// device is queued and delivered after that lock is dropped (loopback.go).
//
// The package must not know sockets, system calls, goroutines or the time of
// day: packets, memory and time are the interfaces of deps.go. So the same code
// runs under a simulated network and clock.
package rxe
