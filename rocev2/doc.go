// Package rocev2 is the port of a RoCEv2 device: it carries packets between
// the engine and a network interface over UDP port 4791 (IBA annex A17).
//
// System calls limit its speed, so packets pass in batches. Send takes bursts of
// packets of equal size and sends them as UDP_SEGMENT (GSO) messages of up to
// 64 KiB, which bursts of several flows may share. The receiving side takes the
// packets that UDP_GRO joined, and passes all of them to Config.Receiver in one call.
//
// A packet to be sent takes this path:
//
//  1. Send (send.go) picks the socket of the source address and port (source.go).
//  2. It cuts and joins bursts to messages that the kernel accepts (sendbatch.go).
//  3. It writes the ICRC of each packet, and calls sendmmsg for each socket (mmsg.go).
//
// A packet that arrives takes this path:
//
//  1. A goroutine for each address (receiver.go) calls recvmmsg on its socket.
//  2. It splits what GRO joined (split.go), and checks every ICRC (recv.go).
//  3. It calls Config.Receiver. If that call blocks, another goroutine continues to
//     read the socket.
//
// An ordinary UDP socket hides parts of the headers. This has three consequences:
//
//   - The ICRC covers the IPv4 identification. An unconnected socket with
//     IP_PMTUDISC_DO sends identification 0, and segment i of a GSO send
//     carries i, whichever flows share it. So the port's sockets are never
//     connected, and it knows what it sends. A socket does not show the
//     identification of a received packet, so package wire computes it from the ICRC.
//   - The don't-fragment bit is always set: a packet above the path's MTU is
//     dropped and counted, never fragmented (IBA A17.3.1).
//   - A RoCEv2 receiver ignores the UDP source port, which exists only to spread
//     flows by ECMP and RSS. Send uses a small pool of ports per address, and one
//     port on the loopback interface, which has neither.
//
// Interfaces, addresses, MTU and link state come from netlink, and the port follows
// their changes (link.go, monitor.go). A Tap writes packets to a pcapng file as they
// are, or would be, on the wire.
//
// The package knows a queue pair by its number only: filters in the kernel (filter.go,
// thinning.go) read the destination in the BTH. It does not look at what follows the BTH,
// except to check the ICRC. It runs on Linux only.
package rocev2
