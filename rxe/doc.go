// Package rxe is the RDMA device: protection domains, memory regions and windows,
// completion queues, shared receive queues, address handles, and queue pairs with
// their requester, responder and completer.
//
// A received packet goes from Device.Receive (receive.go) to the QP that it names.
// Requests go to the responder (responder*.go), responses to the completer
// (completer.go). A work request goes from QP.PostSend (sendqueue.go) through
// requester.go, where flow.go says whether it may go on, and gather.go, which reads its
// payload, to the outbox and the Link.
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
// # Files
//
// From where an event comes in, down to values. A file mostly calls files that come later here
// (TestArrows):
//
//	events      receive.go timer.go gsi.go credits.go recvlate.go qpcreate.go qpmodify.go sendqueue.go
//	requester   requester.go requester_packets.go completer.go raw.go
//	responder   responder.go responder_check.go responder_ops.go responder_ud.go responder_defer.go
//	responder   responder_dup.go responder_fault.go response.go
//	flow        flow.go ackhold.go pacing_ecn.go pacing_read.go ecn.go dcqcn.go admission.go
//	chaos       chaos.go chaos_receive.go chaos_place.go breakage.go
//	payload     gather.go superpacket.go spans.go sender.go opcodes.go
//	passing on  run_queue.go loopback.go inbox.go gate.go pool.go step.go outbox.go tally.go align.go
//	objects     device.go subdevice.go pd.go cq.go srq.go xrc.go blocking.go recvq.go mr.go mw.go keys.go nullmem.go ah.go mcast.go
//	objects     frames.go filter.go filterpeers.go port.go speed.go table.go qp.go snapshot.go failure.go counters.go
//	values      observer.go qpattr.go strings.go errors.go events.go work.go attr.go deviceattr.go limits.go deps.go
//	values      quirks.go params.go doc.go
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
// Locks of one line are not held together, except that numTable.insert draws a number under
// random.mu. Memory is called with a QP locked, Link.Send too. CQRing and RecvRing are called under
// CQ.mu or SRQ.mu, but BlockingCQRing.PushAll and FetchingRing.Fetch with a QP locked, like Memory.
// Clock.Arm is called under timerHeap.mu, Filter with a QP locked or under the numTable.mu of QPs.
// Any lock may be held when Config.OnEvent is called.
package rxe
