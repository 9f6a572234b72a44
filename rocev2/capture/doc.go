// Package capture reads packet captures and finds the InfiniBand transport in
// them, at the rate of a fast link and in constant memory.
//
// A frame takes this path:
//
//  1. Reader (reader.go) finds it in a pcap or pcapng file, plain or gzip, and numbers it.
//  2. link.go removes the link layer: Ethernet with any VLAN tags, Linux cooked, raw
//     IP, ERF, InfiniBand.
//  3. ip.go removes the IP and UDP headers, or ib.go the LRH and GRH of native
//     InfiniBand and RoCEv1.
//  4. The rest is Packet.Transport, BTH through ICRC, for package wire to parse.
//
// The package judges nothing: a Packet has lengths and checksums as they were seen,
// right or wrong. It does not reassemble IP fragments. It never panics on a hostile
// file, and keeps no more of it than one block.
//
// pcapgo, which the rest of the project uses, reads a packet about as fast
// (BenchmarkReader). But a damaged file can make it ask for any amount of memory. It
// also lacks sections of different byte order, mixed link types, and the file's count
// of lost packets, and it copies frames.
package capture
