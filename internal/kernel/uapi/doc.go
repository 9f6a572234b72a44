// Package uapi is the kernel's user ABI for RDMA devices as data: the numbers and
// structs of include/uapi/rdma that uverbs uses. The tests compile a C program that
// compares each of them with the system's headers.
//
// It has no behavior, and knows no object of the device. What a provider adds to the
// ABI (rdma_user_rxe.h) belongs to the provider.
package uapi
