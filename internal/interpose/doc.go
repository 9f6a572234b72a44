// Package interpose stands between a program and the kernel: with seccomp user
// notification it sees the system calls that could concern an RDMA device, answers
// those that do from package uverbs and package sysfs, and lets all others
// continue in the kernel.
package interpose
