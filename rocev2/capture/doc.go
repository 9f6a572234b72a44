// Package capture reads packet captures and finds the InfiniBand transport in
// them, at the rate of a fast link and in constant memory.
//
// A frame takes this path: Reader (reader.go) finds it in a pcap or pcapng
// file, plain or gzip, and numbers it; link.go takes the link layer off
// (Ethernet with any VLAN tags, Linux cooked, raw IP, ERF, InfiniBand); ip.go
// takes the IP and UDP headers off, ib.go the LRH and GRH of native InfiniBand
// and RoCEv1. What is left is Packet.Transport, BTH through ICRC, for package
// wire to parse.
//
// The package judges nothing: a wrong length or checksum is reported in the
// Packet as it was seen, whatever it is. It reassembles no IP fragments. It
// never panics on a hostile file, and holds no more of it than one block.
//
// pcapgo, which the rest of the project uses, reads a packet about as fast
// (BenchmarkReader). What it lacks is a bound on the memory that a damaged file
// can ask for, several sections of different byte order, mixed link types without
// being told, the count of packets that the file itself says are missing, and a
// frame that is decoded where it lies.
package capture
