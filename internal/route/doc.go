// Package route asks the kernel about the host's network: which way packets take, and
// whether the next hop answers. It is Linux's drivers/infiniband/core/addr.c from
// outside the kernel, through rtnetlink.
package route
