// Package ladder shows captures. It prints one line for each packet, with every header
// field if asked. It also draws ladder diagrams, as text or as an HTML page: the ends of
// a connection are the uprights, and each packet is a rung.
//
// Lines (lines.go) are printed while packets are read. A ladder needs both directions of
// a connection, and the checker may learn late which these are. So a Collector
// (collect.go) keeps rows, in bounded memory, and makes conversations of them at the
// end. It counts what it leaves out. text.go and html.go draw the conversations.
//
// The caller passes each packet with its verdict from package conformance. This package
// judges nothing, and does no I/O of its own.
package ladder
