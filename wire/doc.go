// Package wire encodes and decodes RoCEv2. It has every InfiniBand transport header,
// the opcode table, 24-bit PSN arithmetic, AETH syndromes, the RNR timer table and
// the P_Key rule. It also has the invariant CRC and the connection manager's messages.
//
// A packet is handled here from the base transport header (BTH) to the pad
// bytes. On the way in, the port checks and strips the ICRC (ICRCState), then
// Parse validates the rest once and returns a view whose getters cannot fail.
// On the way out, Headers.Put writes the headers in front of the payload and
// ICRCState.Put writes the ICRC. How packets travel is in flow.go: the route, a
// burst of packets, a packet as it arrived.
//
// The payload of packets to queue pair 1 is a management datagram (mad.go). ParseCM
// (cm.go) returns a view of one that is a message of the connection manager.
//
// The package does no I/O, keeps no state between packets, never panics on
// input from the network and does not allocate on parse or build. It knows
// nothing of queue pairs, memory keys or sockets. The engine decides whether a
// packet makes sense in its connection.
//
// Clause numbers refer to the InfiniBand Architecture Specification, volume 1
// ("IBA"), and its annexes A11 (RDMA IP CM), A14 (XRC), A17 (RoCEv2) and A19
// (FLUSH, ATOMIC WRITE).
package wire
