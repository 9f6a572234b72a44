// Package sim holds the engine's tests with two devices over a simulated
// network and clock (package simnet). Everything in it goes through package
// rxe's exported calls, as a program would.
//
//   - seeds_test.go draws a world from a seed (params_test.go), runs random
//     traffic under random faults (world_test.go, pair_test.go, post_test.go,
//     recv_test.go, complete_test.go) and holds completions and memory against a
//     sequential model. fuzz_test.go lets a fuzzer draw.
//   - straight_test.go runs seeds with two QPs on one device, in whole messages and
//     in packets, and looks for any difference; also with mistakes.
//   - trace_test.go checks what went over the network: rules that hold for every
//     RC conversation, whatever the traffic.
//   - requester_test.go and responder_test.go script single exchanges, packet by
//     packet (stage_test.go); mistakes_test.go looks at both ends of an error.
//   - hostile_test.go lets a peer lie.
package sim
