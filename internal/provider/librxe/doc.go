// Package librxe is the kernel's half of librxe, rdma-core's provider for rdma_rxe: the
// private structs, the queues in shared memory, and the doorbells (rdma_user_rxe.h).
//
// All queues of one open lie in one memfd (arena.go). A queue is a ring (ring.go): send
// queues (sendring.go, sendbatch.go, wqe.go), receive queues (recvring.go) and completion
// queues (cqring.go). driver.go, cq.go, srq.go and qp.go give them to uverbs as a
// provider.Driver. FlushOrphan (orphan.go) completes what a dead daemon left behind.
//
// Everything in the shared memory is hostile. Each byte is copied once, and the copy is
// checked and used. Indices are masked with sizes that the program cannot write.
package librxe
