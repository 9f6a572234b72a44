// Package conformance says whether captured RoCEv2 traffic obeys the
// InfiniBand transport protocol, packet by packet and rule by rule.
//
//	report, err := conformance.CheckFile("run.pcapng", conformance.Options{})
//	if report.Violations > 0 { … report.Findings … }
//
// A packet takes this path through Checker.Add (checker.go):
//
//  1. Its ICRC is checked (icrc.go).
//  2. The rules about single packets are applied (packet.go, network.go).
//  3. The packet joins its flow (flow.go): the packets from one address to one queue
//     pair of another address.
//  4. It joins one of the flow's two streams: the requests (request.go), or the
//     responses to the requests of the opposite flow (response.go).
//
// No header of a connected service says which flow is the opposite one. pair.go
// learns that from the connection manager's messages (cm.go), or from PSNs that agree.
//
// A capture does not show everything. It may begin or end in the middle, hold one
// direction only, or cut packets short. The network or the capturing host may lose,
// reorder or double packets. If that could explain a fault, there is no finding, or
// one of less severity: no violation is reported that a correct device could have
// caused. In particular:
//
//   - two requests are compared if their PSNs are adjacent, not if they follow
//     each other in the capture;
//   - a damaged packet (wrong ICRC) is reported as such, and otherwise ignored;
//   - a cut packet, whose ICRC cannot be checked, gives warnings at most;
//   - a response is judged only against requests that were seen, and only if their
//     queue pair is known to be the one that it answers.
//
// Memory is bounded for captures of any length: see Options.MaxFlows. The package does
// no I/O except in CheckFile, and never panics on any input.
package conformance
