// Package tenant counts what each user of a daemon takes of it: sessions, connections,
// memory, descriptors and threads. Each user has a limit.
//
// limits.go, memory.go and threads.go find what the daemon may use: the least of what the
// machine, the control groups and the resource limits allow. All users together may take
// less than that, and each user a share of it. owners.go knows which user ids are one
// user. Package quota has the budgets.
package tenant
