// Package interop holds tests that put gorxe opposite the Linux kernel's
// rdma_rxe: a Debian kernel in an emulated machine, joined to this one by a tap
// in a network namespace of the tests' own. `make interop`, part of `make test`,
// runs a selection; `make interop-full` runs all, with a newer kernel as well, and
// writes testdata/pcaps/interop.md. `go test` alone leaves them out: they need a kernel
// image, some minutes, and a machine that does little else.
//
// Nothing has to be prepared. The kernel comes from Debian's archive once and is
// kept in the user's cache directory; the guest uses the host's file system, so
// that it has the same programs. What a case said on the wire, and what its
// programs wrote, stays in bin/interop.
package interop
