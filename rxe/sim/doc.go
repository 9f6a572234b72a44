// Package sim holds the engine's tests with two devices over a simulated network
// and clock (package simnet). All of them use package rxe's exported calls, as a
// program would.
//
//   - seeds_test.go draws a world from a seed (params_test.go), runs random
//     traffic under random faults (world_test.go, pair_test.go, post_test.go,
//     recv_test.go, complete_test.go) and compares completions and memory with a
//     sequential model. fuzz_test.go lets a fuzzer choose.
//   - superpacket_test.go runs seeds with two QPs on one device, with super-packets
//     and with packets, and looks for any difference; also with mistakes.
//   - long_test.go runs long messages with costly memory, whose payloads are read together,
//     and with cheap memory. It looks for any difference; also with payloads that cannot be read.
//   - trace_test.go checks what went over the network: rules that hold for every
//     RC conversation, whatever the traffic.
//   - requester_test.go and responder_test.go script single exchanges, packet by
//     packet (stage_test.go); mistakes_test.go looks at both ends of an error.
//   - chaos_test.go and chaos_promise_test.go look at what chaos makes visible, and what not.
//   - record_test.go writes a run as a script of package script, and shrink_test.go reduces a run
//     that fails to a few commands; broken_test.go proves that with mistakes in the engine.
//   - hostile_test.go has a peer that lies.
package sim
