// Package simnet simulates a network, a clock and a memory for the engine in package rxe.
// It has one goroutine and virtual time, and draws faults from one seed, so a run repeats
// bit for bit.
//
// A packet goes this way. Port.Send (port.go) seals it as a link would, with an IPv4
// identification that the network chooses, draws its fate, and queues its arrival.
// Network.Step (network.go) takes events in order of time and checks the ICRC exactly. It
// passes intact packets to the receiver, in batches of random size.
//
// The package must not know what packets mean. The tests that observe its trace judge the
// protocol.
package simnet
