// Package mlx5 is the kernel's half of libmlx5, rdma-core's provider for ConnectX adapters: the
// private structs (mlx5-abi.h) and the queues. These are in the program's own memory. Doorbells are
// stores to pages of the context's file.
//
// Queues: send queues (sendqueue.go, wqe.go), receive queues (recvqueue.go, srq.go) and completion
// queues (cqring.go, cqe.go). driver.go, context.go, cq.go, srq.go and qp.go give them to uverbs as
// a provider.Driver. The registers are pages.go, the queue pairs that use them doorbells.go.
// poller.go looks at them.
//
// Everything in the program's memory is hostile, and an access to it may block. Each byte is copied
// once, and the copy is checked and used. Indices are masked with sizes that the program cannot
// write.
package mlx5
