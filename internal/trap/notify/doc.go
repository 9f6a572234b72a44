// Package notify is seccomp's user notification (seccomp_unotify(2)): the listener that
// delivers trapped system calls, and the answers to them.
//
// The package knows the kernel's interface only. It does not know what a call means.
package notify
