package sanitize

import (
	"strings"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
)

// Shared is where a region lies in a file that several mappings may have in common, of one process
// or of several.
type Shared struct {
	procmaps.File
	Offset uint64
}

// SharedIn finds a range in the text of /proc/PID/maps. It is shared if one mapping has all of it,
// and what is written there goes to a file, as to a memfd. nil: there is none.
func SharedIn(maps string, start, length uint64) *Shared {
	for m, err := range procmaps.Read(strings.NewReader(maps)) {
		if err != nil || start < m.Start || start >= m.End {
			continue
		}
		if length > m.End-start || !m.Shared() || m.Inode == 0 {
			return nil
		}
		return &Shared{m.File, m.Offset + start - m.Start}
	}
	return nil
}

// SharesMemory reports whether checks of the session need Region.Shared.
func (s *Session) SharesMemory() bool { return s.races }
