// Package keeper is `gorxe run`: it starts a program under a seccomp listener,
// gives the listener to a daemon, and stays out of the way so well that nobody
// notices it.
//
// Three processes take part, each of them this executable (Stage):
//
//   - The front is what the user started. It finds a daemon, or starts one, and
//     then is what the shell sees of the program: it passes signals on, stops when
//     the program stops, and ends as the program ends, by the same signal if it
//     was one. It ends with the program, whatever the program left running.
//   - The keeper is the front's child and the parent of all processes of the
//     program, orphans included (PR_SET_CHILD_SUBREAPER). It holds the listener,
//     opens for the daemon what only an ancestor may open, and answers when the
//     daemon has died. It lives as long as any of these processes.
//   - The child is the keeper's. It puts itself under the filter and becomes the
//     program.
//
// All three stay in the process group that the shell made, so terminal and job
// control work on the program directly. Who is sent a signal? A signal for the
// group (a key on the terminal, kill of a negative number) reaches the program
// without help; one for the front's process alone has to be passed on. The keeper
// tells which it was: being in the group, it gets the former too, and never the
// latter (canary.go). Both look at their signals when it suits them (inbox.go),
// which takes that they are born with them blocked: the front executes itself for
// that (born.go). Stops and their ends go by the program's state (job.go).
package keeper
