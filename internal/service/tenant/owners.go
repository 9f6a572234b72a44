package tenant

import (
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Owners knows whose subordinate user ids are (subuid(5)). A person who may use 65,536 of them
// is still one user.
//
// It reads /etc/subuid and /etc/passwd, again whenever the former has changed. It does not ask
// name services: ranges that only these know count as users of their own.
type Owners struct {
	files fs.FS

	mu      sync.Mutex
	read    bool
	changed time.Time // of etc/subuid
	size    int64
	ranges  []subordinates
}

// subordinates are the user ids from first on that belong to a user.
type subordinates struct{ first, count, owner uint32 }

// NewOwners returns the owners of user ids in the system whose root directory is files.
func NewOwners(files fs.FS) *Owners { return &Owners{files: files} }

// of returns the user who owns a user id: the id itself, unless it is subordinate.
func (o *Owners) of(uid uint32) uint32 {
	if o == nil {
		return uid
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refresh()
	for _, r := range o.ranges {
		if uid-r.first < r.count {
			return r.owner
		}
	}
	return uid
}

const subuidFile = "etc/subuid"

func (o *Owners) refresh() {
	info, err := fs.Stat(o.files, subuidFile)
	if err != nil {
		o.ranges, o.read = nil, false
		return
	}
	if o.read && info.ModTime().Equal(o.changed) && info.Size() == o.size {
		return
	}
	text, err := fs.ReadFile(o.files, subuidFile)
	if err != nil {
		return
	}
	o.read, o.changed, o.size = true, info.ModTime(), info.Size()
	o.ranges = parseSubordinates(string(text), o.users())
}

// users returns the user ids in passwd(5), by name.
func (o *Owners) users() map[string]uint32 {
	ids := make(map[string]uint32)
	text, err := fs.ReadFile(o.files, "etc/passwd")
	if err != nil {
		return ids
	}
	for line := range strings.Lines(string(text)) {
		if field := strings.Split(line, ":"); len(field) > 2 {
			if id, err := strconv.ParseUint(field[2], 10, 32); err == nil {
				ids[field[0]] = uint32(id)
			}
		}
	}
	return ids
}

// parseSubordinates reads lines of subuid(5): a user's name or number, the first id, and how many
// there are. A malformed line does not count.
func parseSubordinates(text string, users map[string]uint32) (ranges []subordinates) {
	for line := range strings.Lines(text) {
		field := strings.Split(strings.TrimSpace(line), ":")
		if len(field) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(field[1], 10, 32)
		count, err2 := strconv.ParseUint(field[2], 10, 32)
		owner, known := users[field[0]]
		if id, err := strconv.ParseUint(field[0], 10, 32); !known && err == nil {
			owner, known = uint32(id), true
		}
		if err1 == nil && err2 == nil && known {
			ranges = append(ranges, subordinates{uint32(first), uint32(count), owner})
		}
	}
	return ranges
}
