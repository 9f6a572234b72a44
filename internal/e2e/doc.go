// Package e2e runs programs as Debian ships them on gorxe, and holds no code of
// the product: ibverbs-utils, perftest, rdma-core's own Python tests, strace, gdb
// and bash, each unmodified under `gorxe run`, with the daemon's books checked
// afterwards. What the Linux kernel's rdma_rxe answered to the same programs is
// recorded in testdata.
//
// Every test works in network namespaces that it makes itself. How much runs is
// chosen by the environment:
//
//	GORXE_E2E=full       every combination, not only representative ones
//	GORXE_KILLS=200      how many programs and daemons are killed at random (20)
//	GORXE_MPI_RUNS=50    how often four MPI processes run on these processors (2)
//	GORXE_E2E_NATIVE=rxe0  without gorxe, on that device of the kernel's, to
//	                     check the cases themselves (in a virtual machine)
package e2e
