package procfs

import (
	"bytes"
	"strconv"
)

// Capabilities returns the effective capabilities of a thread (capabilities(7)) as a set of
// bits, which is empty if it has ended.
func Capabilities(tid int) uint64 {
	b, err := ReadFile(Path(tid, "status"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if set, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			caps, _ := strconv.ParseUint(string(bytes.TrimSpace(set)), 16, 64) // the kernel writes one
			return caps
		}
	}
	return 0
}
