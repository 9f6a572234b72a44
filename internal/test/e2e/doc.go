// Package e2e runs stock programs on gorxe, as Debian ships them: ibverbs-utils, perftest,
// rdma-core's own Python tests, strace, gdb, bash and others. Each runs unmodified under
// `gorxe run`, and afterwards the daemon must hold nothing. testdata records what the Linux
// kernel's rdma_rxe answered to the same programs. The package has no code of the product.
//
// Every test works in network namespaces that it makes itself. The environment selects how
// much runs:
//
//	GORXE_E2E=full       every combination, not only representative ones
//	GORXE_KILLS=200      how many programs and daemons are killed at random (20)
//	GORXE_KILLS_EACH=200 how many keepers and fronts are killed, and others without traffic (a tenth)
//	GORXE_MPI_RUNS=50    how often four MPI processes run on these processors (2)
//	GORXE_NCCL_SEEDS=1000 how many seeds examples/ncclnet has (10); GORXE_NCCL_FIRST is the first
//	GORXE_LIBVMA=PATH    also TestLibvma, with that library (make test-libvma)
//	GORXE_E2E_NATIVE=rxe0  without gorxe, on that device of the kernel's, to
//	                     check the cases themselves (in a virtual machine)
package e2e
