// Package bench measures what stock programs get from gorxe: perftest, as the
// distribution ships it, under `gorxe run`; between two programs of one daemon, and
// between two daemons in network namespaces that a veth joins. In the same run it
// measures what the figures are to be compared with: plain UDP with GSO and GRO
// over the same networks (package udpbaseline), and one trapped system call.
//
// The way of a run: rows.go says what is measured, place.go where, pair.go runs
// one pair of programs and perftest.go reads what they print, measure.go repeats,
// report.go prints.
package bench
