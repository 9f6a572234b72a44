package doctor

import (
	"fmt"
	"strings"

	"github.com/gorxe/gorxe/internal/service/tenant"
	"golang.org/x/sys/unix"
)

const (
	// A session needs some descriptors, and each connection of a program one or two.
	fewFiles    = 256
	littleFiles = 1024
	// smallMemory is what a daemon with a few programs fits in.
	smallMemory = 128 << 20
)

// status returns a field of /proc/self/status.
func (h *Host) status(field string) string {
	for line := range strings.Lines(h.read("proc/self/status")) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (h *Host) limits() []Finding {
	return []Finding{h.openFiles(), h.space(), h.memoryLimit(), h.processors(), h.realTime()}
}

func (h *Host) openFiles() Finding {
	f := Finding{Subject: "open files", Text: fmt.Sprintf("at most %d", h.OpenFiles)}
	switch {
	case h.OpenFiles < fewFiles:
		f.Level = Failure
	case h.OpenFiles < littleFiles:
		f.Level = Warning
	default:
		return f
	}
	f.Text += ": too few for some programs at once"
	f.Remedy = "raise the hard limit: ulimit -Hn, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container"
	return f
}

// LeastSpace is the address space that a process of gorxe needs: Go's runtime reserves it, and ends
// a process that does not get it. Below about 1 GiB, no process of gorxe gets as far as saying so.
const LeastSpace = 3 << 30

func (h *Host) space() Finding {
	f := Finding{Subject: "address space", Text: "without limit"}
	switch {
	case h.Space < LeastSpace:
		f.Level = Failure
		f.Text = fmt.Sprintf("%d MiB: too little for the processes of gorxe", h.Space>>20)
		f.Remedy = fmt.Sprintf("raise it to %d MiB (ulimit -v), or limit only the program: gorxe run -- sh -c 'ulimit -v N; exec PROGRAM'", LeastSpace>>20)
	case h.Space != unix.RLIM_INFINITY:
		f.Text = fmt.Sprintf("at most %d MiB", h.Space>>20)
	}
	return f
}

func (h *Host) memoryLimit() Finding {
	m := tenant.Machine().Within(h.Files)
	f := Finding{Subject: "memory", Text: fmt.Sprintf("%d MiB by %s", m.Bytes>>20, m.Bound)}
	if m.Bytes < smallMemory {
		f.Level = Warning
		f.Remedy = fmt.Sprintf("raise it to %d MiB or more: queue pairs and captures need memory", smallMemory>>20)
	}
	return f
}

func (h *Host) processors() Finding {
	f := Finding{Subject: "processors", Text: fmt.Sprint(h.CPUs)}
	if h.CPUs == 1 {
		f.Level = Note
		f.Text = "1: programs that poll take it from gorxe for milliseconds"
		f.Remedy = "give the container or machine a second processor, or use programs that wait for events"
	}
	return f
}

func (h *Host) realTime() Finding {
	f := Finding{Subject: "real-time class", Text: "threads that take packets and doorbells may join it"}
	if h.CPUs == 1 {
		f.Text = "not of use on one processor"
	} else if err := h.JoinClass(); err != nil {
		f.Level = Note
		f.Text = fmt.Sprintf("refused (%v): programs that poll delay packets between two daemons by up to milliseconds", err)
		f.Remedy = "let the daemon have priority 1: ulimit -r 1, LimitRTPRIO=1 of a systemd unit, --ulimit rtprio=1 of a container"
	}
	return f
}
