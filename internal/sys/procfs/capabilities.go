package procfs

// Capabilities returns the effective capabilities of a thread (capabilities(7)) as a set of
// bits, which is empty if it has ended.
func Capabilities(tid int) uint64 {
	st, _ := ReadStatus(tid) // empty after an error
	return st.Effective
}

// HasOverNetwork reports whether a thread has a capability over the network namespace of this
// process: it is in that namespace and in this process's user namespace. Root of a user
// namespace or a network namespace of its own has none. False if this process may not look.
func HasOverNetwork(tid, capability int) bool {
	return sameNamespace(tid, "user") && sameNamespace(tid, "net") && Capabilities(tid)&(1<<capability) != 0
}

func sameNamespace(tid int, kind string) bool {
	mine, err := Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return false
	}
	theirs, err := Readlink(Path(tid, "ns/"+kind))
	return err == nil && theirs == mine
}
