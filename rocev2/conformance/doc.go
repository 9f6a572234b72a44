// Package conformance says whether captured RoCEv2 traffic obeys the
// InfiniBand transport protocol, packet by packet and rule by rule.
//
//	report, err := conformance.CheckFile("run.pcapng", conformance.Options{})
//	if report.Violations > 0 { … report.Findings … }
//
// A packet takes this path through Checker.Add (checker.go): its ICRC is checked
// (icrc.go), then what one packet can break by itself (packet.go, network.go);
// then it joins its flow (flow.go), the packets from one address to one queue
// pair of another. A flow holds up to two streams: requests (request.go) and the
// responses to the requests of the opposite flow (response.go). Which flow is
// the opposite one no header of a connected service says: pair.go finds out, from
// the connection manager's messages (cm.go) or from PSNs that agree.
//
// A capture shows less than there was: it begins and ends in the middle, lacks
// packets that the network or the capturing host lost, has them in another order
// or twice, holds one direction only, or cut. Where that could explain what is
// seen, there is no finding, or one of less severity: no violation is reported
// that a correct device could have caused. In particular:
//
//   - two requests are compared if their PSNs are adjacent, not if they follow
//     each other in the capture;
//   - damaged packets (wrong ICRC) are reported as such, and tell nothing else;
//   - packets whose ICRC cannot be checked, being cut, give warnings at most;
//   - responses are judged only against requests of a queue pair that is known to
//     be theirs, and only if they were seen.
//
// Memory is bounded whatever the length of the capture: see Options.MaxFlows.
// The package does no I/O but in CheckFile, and never panics on what it is given.
package conformance
