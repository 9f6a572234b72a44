package explain

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// lastErrno is above all errnos of Linux (errno-base.h, errno.h).
const lastErrno unix.Errno = 255

// errnoList returns every errno of this system, in the order of their names, with the text that
// strerror(3) has.
func errnoList() (list []Word) {
	for errno := unix.Errno(1); errno <= lastErrno; errno++ {
		name := unix.ErrnoName(errno)
		if name == "" {
			continue
		}
		w, ok := errnoWords[errno]
		if !ok {
			w = words{"no verb of this device fails so: another call of the program did", "see the manual page of the call"}
		}
		fix := sentence(w.fix)
		if ok {
			fix += " Run the program with gorxe run --explain: it names the call, the attribute and the value."
		}
		if errnoCauses[errno] == notUnderGorxe {
			fix = "Start the program with gorxe run. Under it: " + lower(fix)
		}
		text := errno.Error()
		if strings.HasPrefix(text, "errno ") {
			text = "" // package syscall has none
		}
		list = append(list, Word{Name: name, Number: int(errno), Text: text, foreign: !ok,
			Meaning: strings.TrimSuffix(sentence(w.why)+" "+errnoCauses[errno], " "), Fix: fix})
	}
	slices.SortFunc(list, func(a, b Word) int { return strings.Compare(a.Name, b.Name) })
	return list
}
