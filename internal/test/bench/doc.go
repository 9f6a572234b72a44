// Package bench measures stock programs on gorxe: perftest, as the distribution ships it,
// under `gorxe run`. Two programs share a daemon, or two daemons run in network namespaces
// that a veth joins. For comparison, the same run measures plain UDP with GSO and GRO over
// the same networks (package udpbaseline), the Go library, and one trapped system call.
//
// library.go is the Go library, which needs no daemon. rows.go says what is measured, and place.go where. pair.go runs one pair of programs,
// perftest.go reads their output, measure.go repeats, and report.go prints.
package bench
