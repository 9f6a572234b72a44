// Package script plays conversations between two devices that are written down: a command a
// line, and below each command what the devices did. The files of testdata are such scripts,
// in the format of package datadriven, and a person can review them against the specification.
//
//	post write 600
//	----
//	a sends RC RDMA_WRITE_FIRST psn 100 at 0 dma 600 len 256
//	...
//	deliver 1
//	drop 1
//
// Nothing happens by itself. A packet waits in flight (flight.go) until a command delivers or
// drops it, and the clock of package simnet moves only with the command wait. Two hosts, a and
// b, have one queue pair each (host.go). a is the one that posts, unless a command names b.
//
// Each line of output is one thing that happened, in order:
//
//	a sends …             a packet, which is in flight now: opcode, PSN, syndrome and MSN of the
//	                      AETH, offset in the peer's memory, bytes asked for (dma) and carried (len)
//	b takes …             a packet has arrived; what b does about it follows
//	lost, doubled, late   what a command did to a packet in flight
//	a completes wr 1 …    a work completion: operation and status of libibverbs. recv 1 is that of
//	                      a receive work request
//	a gets IBV_EVENT_…    an asynchronous event
//	a is in ERR           the queue pair has this state now
//	10µs: …               the time since the script began, of what happens while it waits
//	PROBLEM …             what must not happen
//	error: …              the command was refused
//
// The package watches what it plays (judge.go). It compares completions, messages and memory
// with a model, and captures at both ends with the rules of package conformance. What it finds
// wrong is part of the output, and Play returns it. So a script without recorded output, as the
// shrinker of rxe/sim writes it, can fail.
//
// The commands (command.go):
//
//	connect [rc|uc|ud|xrc] [mtu=256] [psn=100] [psn-b=500] [timeout=14] [retry=7] [rnr-retry=7]
//	        [rnr-timer=1] [reads=1] [depth=64] [access=all] [srq=0] [memory=131072]
//	post [a|b] OP [LENGTH] [at=0] [imm=N] [add=N] [compare=N] [swap=N] [rkey=wrong|window]
//	        [srqn=wrong|strange] [sges=N] [fence] [inline] [solicited] [unsignaled] [more]
//	recv [a|b] LENGTH [count=1] [sges=N]
//	deliver                                    all packets, with those that they cause
//	deliver [N] [at=N] [from=a|b] [together]   the N oldest packets; with more, the next
//	        [more]                             command delivers others together with them
//	drop [N] [at=N] [from=a|b]                 loses packets in flight
//	dup [N] [at=N] [from=a|b]                  doubles packets in flight
//	delay [N] [at=N] [from=a|b]                moves packets behind all others in flight
//	wait DURATION                              deadlines pass
//	modify a|b reset|rts|sqd|err               changes the state of a queue pair
//	reconnect [psn=100] [psn-b=500]            both queue pairs, through RESET
//	limit b N                                  arms the limit event of b's SRQ
//	dereg b                                    ends the registration of b's memory
//	alter syndrome=N|psn=N [at=N] [from=a|b]   changes a packet in flight
//	finish                                     delivers everything, until all work is done
//
// With xrc, a is an initiator and b a target. The SRQ that it serves, which recv and limit are
// about, is in its domain, and a strange one is not. So b posts nothing.
//
// A work request with more is posted together with the next one. OP is send, send-imm, send-inv,
// write, write-imm, read, compare-swap, fetch-add, atomic-write, flush, bind or local-inv.
package script
