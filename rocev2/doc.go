// Package rocev2 is the port of a RoCEv2 device: it carries packets between
// the engine and a network interface over UDP port 4791 (IBA annex A17).
//
// Batching is what makes it fast, so batches are its only currency. Send takes
// bursts of equal packets and moves them as UDP_SEGMENT (GSO) messages of up to
// 64 KiB, which bursts of several flows may share; the receiving side takes what
// UDP_GRO coalesced and hands the whole batch to Config.Receiver in one call.
//
// The path of a packet out: Send (send.go) picks the socket of the source
// address and port (source.go), cuts and joins bursts to what the kernel takes in
// one message (sendbatch.go), writes each packet's ICRC, and calls sendmmsg for
// each socket (mmsg.go). The path in: for each address there is a socket
// (receiver.go) and a goroutine that reads it (recv.go): it calls recvmmsg, splits
// what GRO joined (split.go), checks every ICRC, and calls Config.Receiver. If that
// does not come back, another goroutine goes on reading.
//
// What an ordinary UDP socket hides, and what follows from it:
//
//   - The ICRC covers the IPv4 identification. An unconnected socket with
//     IP_PMTUDISC_DO sends identification 0, and segment i of a GSO send
//     carries i, whichever flows share it, so the port knows what it sends: its
//     sockets are never connected. It is not shown what it receives, so it asks
//     package wire for a check that solves for the identification.
//   - The don't-fragment bit is always set: a packet above the path's MTU is
//     dropped and counted, never fragmented (IBA A17.3.1).
//   - A receiver never looks at the UDP source port; it exists for the entropy
//     of ECMP and RSS only. Send uses a small pool of ports per address, and on
//     the loopback interface, which has neither, one.
//
// Interfaces, addresses, MTU and link state come from netlink and are followed
// live (link.go, monitor.go). A Tap writes what is, or would be, on the wire to
// a pcapng file, which the gopacket layers of package rocev2/layers decode.
//
// The package knows nothing of queue pairs: the first header it does not look
// into is the BTH. It runs on Linux only.
package rocev2
