package sanitize

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorxe/gorxe/internal/sys/procmaps"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// Session watches the programs of one run. Its methods, and those of its Files, may be called by
// several threads at once. mu is a leaf lock, and is not held during an access to memory.
type Session struct {
	selected Selection
	now      func() time.Time

	mu       sync.Mutex // below
	findings []Finding
	found    map[string]int // index in findings, by what makes them the same
	leftOut  int
	unseen   int
	maps     []string
	steps    int // of the settings of queue pairs
	objects  int // with a history, of all files
	posts    int
	receives int
	qps      map[qpName]*object
	regions  map[keyName]*object
	ended    []*object // regions that were deregistered, the oldest first
	fetches  []claim   // local ranges of READs and atomics under way
	stray    []stray
	// connecting has the processes that use RDMA CM, which chooses min_rnr_timer for them.
	connecting map[int]bool
	races      bool // a check of them is selected. It does not change.
	ordering
}

// ordering is what a Session needs to look for races (order.go).
type ordering struct {
	claims    []claim
	processes map[int]*process // by pid
	slots     []*object        // the queue pairs of the clocks; nil: free
	numbers   []uint64         // of the last request of each slot
	places    map[place]news   // what the next atomic there learns
	noted     int              // news in messages and completion queues
	told      map[CMEnd]clock  // what ends of connections said last
}

// qpName is what a peer calls a queue pair of this run.
type qpName struct {
	device string
	number wire.QPN
}

// keyName is what a key of a device means.
type keyName struct {
	device string
	key    uint32
}

// New returns a Session that makes these checks.
func New(selected Selection, now func() time.Time) *Session {
	return &Session{selected: selected, now: now, found: make(map[string]int), qps: make(map[qpName]*object), regions: make(map[keyName]*object),
		connecting: make(map[int]bool), races: selected.races(),
		ordering: ordering{processes: make(map[int]*process), places: make(map[place]news), told: make(map[CMEnd]clock)}}
}

// File is what one process has of one device.
type File struct {
	s       *Session
	pid     int
	program string
	device  string

	// Session.mu guards what is below.
	objects map[any]*object
	byQP    map[*rxe.QP]*object
	windows bool // the process has made memory windows, whose keys change
	// written has the last ranges that the device was about to write, which it may still do.
	written [lastWrites]span
	writes  int
	called  *Stack // the last trapped call, if receives are compared
	failed  func() // OnError
}

// OnError sets what is called at each error of the process, before the program can notice a
// completion of it. It must not block.
func (f *File) OnError(do func()) { f.failed = do }

// CMDevice is the name of the device of RDMA CM for Open.
const CMDevice = "rdma_cm"

// Open returns the File of a device that a process opens.
func (s *Session) Open(pid int, program, device string) *File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened(pid)
	if device == CMDevice && len(s.connecting) < maxProcesses {
		s.connecting[pid] = true
	}
	return &File{s: s, pid: pid, program: program, device: device,
		objects: make(map[any]*object), byQP: make(map[*rxe.QP]*object)}
}

// region returns the region of a key; nil: there is none in this run. s.mu is held.
func (f *File) region(key uint32) *object { return f.s.regions[keyName{f.device, key}] }

// Maps keeps the mappings of a process that have code, and returns their index for Stack.Maps. The
// other ones change with each object that a program makes.
func (s *Session) Maps(text string) int {
	text = withCode(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.maps {
		if have == text {
			return i
		}
	}
	if len(s.maps) >= maxMaps {
		return -1
	}
	s.maps = append(s.maps, text)
	return len(s.maps) - 1
}

// withCode returns the lines of /proc/PID/maps that map code of a file.
func withCode(text string) string {
	var b strings.Builder
	for m, err := range procmaps.Read(strings.NewReader(text)) {
		if err == nil && m.Executable() && m.Path != "" {
			b.WriteString(m.Line + "\n")
		}
	}
	return b.String()
}

// Report returns what was found so far.
func (s *Session) Report() *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Report{Findings: append([]Finding{}, s.findings...), LeftOut: s.leftOut, Unseen: s.unseen}
	if len(r.Findings) > 0 {
		r.Maps = append([]string{}, s.maps...)
	}
	return r
}

// again counts a finding that was found before. s.mu is held.
func (f *File) again(name string, places []Place, what string) bool {
	i, ok := f.s.found[f.same(name, places, what)]
	if ok {
		f.s.findings[i].Count++
	}
	return ok
}

// same returns what makes two findings the same: the stacks of their places, or without places what
// happened.
func (f *File) same(name string, places []Place, what string) string {
	key := append(make([]byte, 0, keyRoom), name...)
	key = strconv.AppendInt(key, int64(f.pid), keyBase)
	for i := range places {
		if st := places[i].Stack; st != nil {
			key = strconv.AppendUint(append(key, ' '), st.PC, keyBase)
			key = strconv.AppendUint(append(key, ' '), st.SP, keyBase)
		}
	}
	if len(places) == 0 {
		key = append(key, what...)
	}
	return string(key)
}

// find adds a finding, unless the check is off or the same was found before. s.mu is held.
func (f *File) find(name string, finding Finding) {
	s, c := f.s, checkOf(name)
	if !s.selected[name] || f.again(name, finding.Places, finding.What) {
		return
	}
	same := f.same(name, finding.Places, finding.What)
	if len(s.findings) >= maxFindings {
		s.leftOut++
		return
	}
	s.found[same] = len(s.findings)
	finding.Check, finding.Level, finding.See, finding.Count = name, c.Level, c.See, 1
	finding.PID, finding.Program, finding.Device = f.pid, f.program, f.device
	s.findings = append(s.findings, finding)
	if f.failed != nil && c.Level == Error {
		f.failed()
	}
}
