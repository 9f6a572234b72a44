// Package sim holds the tests of package cm with two connection managers over a
// simulated network and clock (package simnet).
//
// A seed draws a world (params_test.go): two hosts, the network's faults, and a plan
// for each connection: what its two users do, and when. The users (user_test.go) are
// programs that connect, listen, accept, reject, disconnect and destroy. A host may
// crash. When the run ends, world_test.go judges it: see world.judge.
//
// many_test.go has many nodes that connect to each other at once.
package sim
