// Package cm is the connection manager of one device (IBA chapter 12), as a state
// machine without I/O, goroutines, clock or locks. Its behavior is that of Linux's
// drivers/infiniband/core/cm.c, whose functions the comments name; times are those of
// Linux 6.12.
//
// A Machine holds the state of a device's connections. Receive takes a management
// datagram, Expire runs the timers, and Config.Send sends what the Machine answers. The
// caller serializes all calls of one Machine and of its connections and listeners, and
// calls Expire at Deadline.
//
//	active side                           passive side
//	Connect            --- REQ --->       Listener's handler: Admit
//	Reply event        <-- REP ----       Accept
//	Ready              --- RTU --->       Ready event
//	...
//	Disconnect         --- DREQ -->       Disconnect event
//	Disconnected event <-- DREP ---       Disconnect, or Destroy
//
// A message that needs an answer is sent again until the answer comes (timers.go). An
// answer is sent again if the message that it answers comes again.
//
// The package does not know queue pairs, IP addresses or the RDMA IP CM header: its user
// does. It does not look up routes.
//
// Deviations from Linux, most of them against forged messages:
//   - connections are bounded, and half-open ones more so, by user (limits.go);
//   - the times that a peer asks for are bounded (timers.go);
//   - a REQ or REP makes another connection stale only if both have the same peer, and the
//     same user if that is known (peers.go);
//   - a message of a connection must come from the address of its peer (machine.go), and
//     a REQ from the address that it names as its own (req.go);
//   - SIDR_REQs with the same request ID are told apart by their senders (sidr.go);
//   - a REQ with an unknown path MTU or transport is refused here, not by the queue
//     pair later (req.go);
//   - a DREQ for a connection that is over, but not destroyed, is answered (dreq.go).
package cm
