// Package simnet is a network, a clock and a memory for the engine in package
// rxe, all of them simulated: one goroutine, virtual time, and faults drawn from
// one seed, so that a run repeats bit for bit.
//
// A packet's way through it: Port.Send (port.go) seals it as a link would, with
// an IPv4 identification of the network's choosing, draws its fate and queues
// its arrival; Network.Step (network.go) takes events in order of time, checks
// the ICRC exactly and hands what is intact to the receiver in batches of random
// size.
//
// The package must not know what packets mean: verdicts on protocol belong to
// the tests that observe its trace.
package simnet
