// Package route asks the kernel about the host's network: which route packets take, and
// whether the next hop answers. It does through rtnetlink what Linux's
// drivers/infiniband/core/addr.c does in the kernel.
package route
