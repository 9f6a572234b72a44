// Package interop holds tests that put gorxe opposite the Linux kernel's
// rdma_rxe: a Debian kernel in an emulated machine, joined to this one by a tap
// in a network namespace of the tests' own. `make interop` runs them and writes
// docs/interop.md; `go test` alone leaves them out, for they need a kernel image
// and some minutes.
//
// Nothing has to be prepared. The kernel comes from Debian's archive once and is
// kept in the user's cache directory; the guest uses the host's file system, so
// that it has the same programs. What a case said on the wire, and what its
// programs wrote, stays in bin/interop.
package interop
