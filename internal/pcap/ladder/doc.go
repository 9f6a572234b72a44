// Package ladder shows captures: as one line a packet in the words of the field,
// with every header field, or as a ladder, the two ends of a connection as
// uprights and a rung for each packet between them, in text or as an HTML page.
//
// Lines (lines.go) are printed as packets are read. A ladder needs both directions
// of a connection, and which these are may become known late: so a Collector
// (collect.go) keeps rows, in bounded memory, and makes conversations of them at
// the end. What it leaves out it counts. text.go and html.go draw these.
//
// The verdicts are those of package conformance, whose Checker a caller feeds and
// hands each Verdict on. This package judges nothing, and does no I/O of its own.
package ladder
