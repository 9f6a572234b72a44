package procfs

// Capabilities returns the effective capabilities of a thread (capabilities(7)) as a set of
// bits, which is empty if it has ended.
func Capabilities(tid int) uint64 {
	st, _ := ReadStatus(tid) // empty after an error
	return st.Effective
}
