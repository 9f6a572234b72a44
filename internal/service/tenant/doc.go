// Package tenant has the users of a daemon, and what each of them may take of it: sessions,
// connections, memory, descriptors and threads.
//
// limits.go, memory.go and threads.go find what there is: the least that the machine, the control
// groups and resource limits leave the daemon. owners.go knows which user ids are one user. All users together may take less than that, and a user a
// share of it. Package quota counts.
package tenant
