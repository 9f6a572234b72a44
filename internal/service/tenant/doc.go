// Package tenant has the users of a daemon, and what each of them may take of it: sessions,
// connections, memory and descriptors.
//
// limits.go finds what there is: the least that the machine, the control groups and
// RLIMIT_NOFILE leave the daemon. All users together may take less than that, and a user a
// share of it. Package quota counts.
package tenant
