// Package fault says what goes wrong, where and when: rules, how they are written, what they
// match, and what they did. It has no I/O and no clock of its own, and it changes no packet. The
// packages that have a place for a fault ask it: internal/fault/inject for packets,
// internal/kernel/uverbs for verbs.
//
// A rule names a place (packet), a fault (drop), the candidates (opcode=RC_SEND_ONLY) and which of
// them are hit (first=1). Parse reads
//
//	packet drop,opcode=RC_SEND_ONLY,first=1
//
// and docs/faults.md has the grammar. A rule that cannot fire is refused.
package fault
