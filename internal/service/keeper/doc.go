// Package keeper is `gorxe run`: it starts a program under a seccomp listener and gives the
// listener to a daemon. The program and its user notice as little of it as possible.
//
// Three processes take part, each of them this executable (Stage):
//
//   - The front is the process that the user started. It finds a daemon, or starts one.
//     Then it represents the program to the shell. It passes signals on, stops when the
//     program stops, and ends as the program ends, by the same signal if it was one. It
//     ends with the program, even if the program left other processes running.
//   - The keeper is the front's child and the parent of all processes of the program,
//     orphans included (PR_SET_CHILD_SUBREAPER). It holds the listener, opens for the
//     daemon what only an ancestor may open, and answers when the daemon has died. It
//     lives as long as any of these processes.
//   - The child is the child of the keeper. It installs the filter for itself and becomes
//     the program.
//
// All three stay in the process group that the shell made, so terminal and job control
// work on the program directly. A signal for the group (a key on the terminal, kill of a
// negative number) reaches the program without help. A signal for the front's process alone
// has to be passed on. The keeper tells them apart: it is in the group, so it gets the
// former and never the latter (canary.go).
//
// Both processes read their signals from an inbox (inbox.go). For that they must start with
// these signals blocked, so the front executes itself once (born.go). Stops and
// continuations follow the program's state (job.go).
package keeper
