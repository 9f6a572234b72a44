// Package explain says in words why verbs were refused and why work failed: which attribute, which
// limit, which state, which packet, what the peer said, and what to do. A Record is one such
// reason, and a Log keeps the last of a program.
//
// The reasons come from where they are decided: rxe.OpError, rxe.Failure, and kernel.Refusal by its
// method Reason. The package does no I/O, and does not know how a record reaches a user.
package explain
