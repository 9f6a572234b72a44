// Package ucma is /dev/infiniband/rdma_cm, the file through which librdmacm asks the
// kernel for connections. It answers as Linux's drivers/infiniband/core/ucma.c does, with
// the same errors. Package rdmacm does the work.
//
// A File is an event channel. Its commands come with write(2): a header, a struct, and the
// address of an answer (command.go). Events of its ids queue in it until the program reads
// them with GET_EVENT (events.go), the only command that waits.
//
// The package does not know how a connection is made, nor how a system call got here.
package ucma
