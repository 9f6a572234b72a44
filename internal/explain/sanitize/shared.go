package sanitize

import (
	"fmt"
	"strconv"
	"strings"
)

// SharedFile is a file that several mappings may have in common, of one process or of several.
type SharedFile struct{ device, inode string }

// Shared is where a region lies in such a file.
type Shared struct {
	SharedFile
	Offset uint64
}

// SharedIn finds a range in the text of /proc/PID/maps (proc(5)). It is shared if one mapping has
// all of it, and what is written there goes to a file, as to a memfd. nil: there is none.
func SharedIn(maps string, start, length uint64) *Shared {
	for line := range strings.Lines(maps) {
		var first, end uint64
		words := strings.Fields(line)
		if len(words) < mapColumns-1 {
			continue
		}
		if n, err := fmt.Sscanf(words[0], "%x-%x", &first, &end); n != 2 || err != nil || start < first || start >= end {
			continue
		}
		offset, err := strconv.ParseUint(words[2], 16, 64)
		if err != nil || length > end-start || !strings.HasSuffix(words[1], "s") || words[4] == "0" {
			return nil
		}
		return &Shared{SharedFile{words[3], words[4]}, offset + start - first}
	}
	return nil
}

// SharesMemory reports whether checks of the session need Region.Shared.
func (s *Session) SharesMemory() bool { return s.races }
