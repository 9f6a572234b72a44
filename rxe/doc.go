// Package rxe is the RDMA device: protection domains, memory regions and windows,
// completion queues, shared receive queues, address handles, and queue pairs with
// their requester, responder and completer.
//
// A received packet goes from Device.Receive (receive.go) to the QP that it names.
// Requests go to the responder (responder*.go), responses to the completer
// (completer.go). A work request goes from QP.PostSend (sendqueue.go) through
// requester.go and outbox.go to the Link.
//
// The thread that has an event (a caller that posts, a received batch, a deadline)
// locks the QP and runs the event to completion. What one QP sends to another of
// the same device is queued, and delivered after that lock is dropped
// (loopback.go).
//
// The package must not know sockets, system calls, goroutines or the time of day.
// Packets, memory and time are the interfaces of deps.go, so that the same code
// runs under a simulated network and clock.
//
// # Lock order
//
// A thread takes locks in this order, and never locks two QPs at once:
//
//  1. a QP's gate (gate.go)
//  2. mcastTable.mu
//  3. MW.mu, then MR.mu
//  4. Device.mu
//  5. CQ.mu or SRQ.mu
//  6. admission.mu
//  7. numTable.mu, timerHeap.mu, runQueue.mu, gate.mu, random.mu, port.mu
//
// Locks of one line are not held together, except that numTable.insert draws a
// number under random.mu. Memory is called with a QP locked, Link.Send too. CQRing
// and RecvRing are called under CQ.mu or SRQ.mu, but BlockingCQRing.PushAll and FetchingRing.Fetch
// with a QP locked, like Memory. Clock.Arm is called under
// timerHeap.mu, Filter with a QP locked or under the numTable.mu of QPs. Any lock may be held when Config.OnEvent is called.
package rxe
