// Package mad is the access layer of management datagrams (Linux: mad.c): what the programs
// of this host send and receive on the queue pairs 0 and 1 of a port.
//
// A Port has Agents. An agent is registered for methods of a class (agent.go), and sends
// datagrams (send.go). Answers find the agent that has asked by the upper half of their
// transaction identifier; the lower half is the program's. A request that is not answered is
// sent again, and then given back (transaction.go). What comes from the wire comes from
// package gsi (receive.go).
//
// Queue pair 0 leads to the subnet management agent of the port (package sma), and nowhere
// else: no RoCE link carries subnet management.
//
// The package must not know how a program makes its requests.
package mad
