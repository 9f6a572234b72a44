// Package uverbs is the kernel's user ABI for RDMA devices, answered in user
// space: what a program says to /dev/infiniband/uverbsN with ioctl
// (RDMA_VERBS_IOCTL) and with write() reaches an rxe.Device, and the queues that
// librxe, the provider of rdma-core, keeps in shared memory are served in place.
//
// How a program's system calls get here it does not know: an interposer hands
// them over as calls of File, with a Caller that stands for the program's memory
// and descriptors. Everything that a program wrote, requests and shared queues
// alike, is taken for hostile: it is copied once, the copy is checked, and the
// copy is used.
//
// Limits and errno values are those of Linux (drivers/infiniband/core and
// drivers/infiniband/sw/rxe), because rdma-core acts on them.
package uverbs
