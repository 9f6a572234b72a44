// Package trap answers system calls in place of the kernel. Seccomp user notification
// shows it the calls that could concern an RDMA device. It answers those that do, from the
// kernel's files (package kernel) and from the file tree (package tree). All others continue
// in the kernel.
//
// # The path of a system call
//
//  1. Package filter decides which calls are trapped. Calls that name a file are. Calls on a
//     descriptor are trapped if its number is in the filter.Range, where gorxe keeps its
//     descriptors. fstat is also trapped below it, where open files of the tree are.
//  2. receiver.go: a thread receives the notification and answers it completely. calls.go
//     has the handlers, and wakeups.go says where the caller wakes up.
//  3. paths.go and answer_path.go find what a path names, with package vfs. The tree answers, or
//     the kernel.
//  4. objects.go, files.go and answer_fd.go find what a descriptor refers to. The file behind
//     it decides (device and inode of a memfd, pipe or socket, or its name), not its number.
//  5. caller.go and process.go have the calling thread, its process, and the address space of
//     that process (package procmem), which owns memory regions.
//
// waiting.go keeps calls that wait for an event, and ends them for a signal. duty.go starts and
// ends receivers, and replaces one that a program's memory blocks. housekeeping.go notices ended
// processes and closed pollable files, and closes.go other closed files. doorbells.go has the
// threads that take direct doorbells (package doorbell), ringers.go lists them, package sched says
// when and where they do it, and helpers.go has those that help. doorbellpipe.go says when a pipe
// replaces a device's file. What is in hand stands in a page (package inflight), and the keeper
// answers it when the daemon has died (package fallback).
//
// # What is not seen
//
// These calls reach the kernel as they would without gorxe:
//
//   - io_uring
//   - calls on a descriptor that was sent to another process, or moved below the range by
//     dup2
//   - a path that leads to the tree through a symbolic link, /proc/self/root or a bind mount
//   - newfstatat or statx with AT_EMPTY_PATH and both a path and a descriptor below the
//     range. glibc's fstat has that form, and trapping it would slow every fstat.
//
// Such a program gets what a host without the device gives it, usually ENOENT or ENOTTY.
//
// The range of descriptors is fixed when the filter is made. If a program lowers its own limit
// of open files below it, opening devices and directories of the tree fails with EMFILE.
//
// The trap is not a security boundary against the program. The program runs with its own
// rights, and gorxe checks only what it does through the device.
package trap
