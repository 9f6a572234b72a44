// Package interop tests gorxe against the Linux kernel's rdma_rxe. A Debian kernel runs in
// an emulated machine, and a tap in a network namespace connects both. `make interop`, part
// of `make test`, runs a selection. `make interop-full` runs all tests, with newer kernels
// too, and writes testdata/pcaps/interop*.md. `go test` alone leaves the tests out: they need
// a kernel image, some minutes, and a machine that does little else.
//
// Nothing has to be prepared. The tests download the kernel from Debian's archive once and
// keep it in the user's cache directory. The guest uses the host's file system, so it has
// the same programs. The packets of a case, and the output of its programs, stay in
// bin/interop.
package interop
