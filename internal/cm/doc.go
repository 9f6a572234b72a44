// Package cm is the connection manager of one device (IBA chapter 12), as a state
// machine without I/O, goroutines, clock or locks. Its behavior is that of Linux's
// drivers/infiniband/core/cm.c, whose functions the comments name; times are those of
// Linux 6.12.
//
// A Machine holds what is known of a device's connections. Receive takes a management
// datagram, Expire runs the timers, Config.Send takes what goes out. The caller
// serializes all calls of one Machine and of its connections and listeners, and calls
// Expire at Deadline.
//
//	active side                           passive side
//	Connect            --- REQ --->       Listener's handler: Take
//	Reply event        <-- REP ----       Accept
//	Ready              --- RTU --->       Ready event
//	...
//	Disconnect         --- DREQ -->       Disconnect event
//	Disconnected event <-- DREP ---       Disconnect, or Destroy
//
// A message that wants an answer is sent again until the answer comes (timers.go). The
// other messages are sent again if what they answer comes again.
//
// The package does not know queue pairs, addresses or the RDMA IP CM header: those are
// the user's. It finds no routes.
//
// Deviations from Linux, most of them against forged messages:
//   - half-open connections are bounded (limits.go);
//   - the times that a peer asks for are bounded (timers.go);
//   - a REQ that makes a connection stale ends it only if it came from that
//     connection's peer (req.go);
//   - service ID requests are told apart by their sender as well (sidr.go);
//   - a REQ with an unknown path MTU or transport is refused here, not by the queue
//     pair later (req.go);
//   - a DREQ is answered also if its connection is over and not destroyed (dreq.go).
package cm
