// Package bench measures stock programs on gorxe: perftest, as the distribution ships it,
// under `gorxe run`. Two programs share a daemon, or two daemons run in network namespaces
// that a veth joins. For comparison, the same run measures plain UDP with GSO and GRO over
// the same networks (package udpbaseline), the Go library, and one trapped system call. It also
// measures what the system calls of a message take at least.
//
// raw.go measures Ethernet frames of raw packet queue pairs, and rawsockets.go those of plain
// sockets.
//
// rows.go says what is measured, and place.go where. pair.go runs one pair of programs, perftest.go
// reads their output, measure.go repeats, and report.go prints. library.go is the Go library, which
// needs no daemon. least.go and doorbell.go measure system calls by themselves, and roles.go has
// the programs for that.
package bench
