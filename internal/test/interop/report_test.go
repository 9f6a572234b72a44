package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/wire"
)

// results are the results of the kernel that this process tests.
var results table

type table struct {
	Kernel  string
	Date    string
	Rows    []row
	Opcodes map[wire.Opcode]int // packets that gorxe sent
}

type row struct {
	Section string
	Case    string
	Role    string // of gorxe
	Family  family
	Note    string // what the case showed
	Settled string // a reading of the driver's source that it decided
	Passed  bool
	Defect  bool // it ended with a defect of the kernel that is documented
	Date    string

	Sent, Received int // packets, by gorxe
	Read           int // of those sent, by tshark, which found nothing malformed
	Habits         habits
}

// habits are how the kernel fills in the headers below the BTH.
type habits struct {
	IPv4, NoID, NoDF int // packets
	IPv6, Summed     int // with a UDP checksum
	SummedIPv4       int
}

func (h *habits) add(o *habits) {
	h.IPv4, h.NoID, h.NoDF, h.SummedIPv4 = h.IPv4+o.IPv4, h.NoID+o.NoID, h.NoDF+o.NoDF, h.SummedIPv4+o.SummedIPv4
	h.IPv6, h.Summed = h.IPv6+o.IPv6, h.Summed+o.Summed
}

func (h *habits) see(r *roce) {
	count := func(n *int, when bool) {
		if when {
			*n++
		}
	}
	v4 := r.route.Src.Is4()
	count(&h.IPv4, v4)
	count(&h.NoID, v4 && r.IP.ID == 0)
	count(&h.NoDF, v4 && !r.IP.DF)
	count(&h.SummedIPv4, v4 && r.UDP.Checksum != capture.ChecksumNone)
	count(&h.IPv6, !v4)
	count(&h.Summed, !v4 && r.UDP.Checksum != capture.ChecksumNone)
}

func (h *habits) String() string {
	return fmt.Sprintf("Of %d packets over IPv4, %d have identification 0, %d lack DF, %d have a UDP checksum; of %d over IPv6, %d have one.",
		h.IPv4, h.NoID, h.NoDF, h.SummedIPv4, h.IPv6, h.Summed)
}

func (r *row) result() string {
	switch {
	case !r.Passed:
		return "**fail**"
	case r.Defect:
		return "defect"
	default:
		return "pass"
	}
}

func (t *table) add(r row) { t.Rows = append(t.Rows, r) }

// count counts a packet that gorxe sent.
func (t *table) count(op wire.Opcode) {
	if t.Opcodes == nil {
		t.Opcodes = map[wire.Opcode]int{}
	}
	t.Opcodes[op]++
}

// tally says how many rows there are, and how they ended.
func (t *table) tally() string {
	failed, defects := 0, 0
	for i := range t.Rows {
		switch r := &t.Rows[i]; {
		case !r.Passed:
			failed++
		case r.Defect:
			defects++
		}
	}
	return fmt.Sprintf("%d cases, of which %d failed, and %d ended with a defect of the kernel", len(t.Rows), failed, defects)
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\ngorxe and %s, link MTU %d\n", lab.release, linkMTU)
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%-12s %-34s %-7s %-5s %6d sent %6d received  %s %s\n",
			r.Section, r.Case, r.Role, r.Family, r.Sent, r.Received, r.result(), r.Note)
	}
	fmt.Fprintln(w, t.tally())
}

// read records that tshark has read everything.
func (t *table) read() {
	for i := range t.Rows {
		t.Rows[i].Read = t.Rows[i].Sent
	}
}

// resultsFile keeps a kernel's results beside its captures, until writePages reads them.
const resultsFile = "results.json"

// load reads the results that an earlier run has left.
func load(dir string) (t table, err error) {
	text, err := os.ReadFile(filepath.Join(dir, resultsFile))
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return t, err
}

// merge replaces results of the earlier run by those of this run's cases. So a run of some
// cases (-run) keeps the rows of the others.
func (t *table) merge(earlier *table) {
	if earlier.Kernel != t.Kernel {
		return
	}
	rows := slices.Clone(earlier.Rows)
	for _, r := range t.Rows {
		at := slices.IndexFunc(rows, func(o row) bool { return o.key() == r.key() && o.Role == r.Role })
		if at < 0 {
			rows = append(rows, r)
		} else {
			rows[at] = r
		}
	}
	if t.Opcodes == nil {
		t.Opcodes = map[wire.Opcode]int{}
	}
	for op, n := range earlier.Opcodes {
		t.Opcodes[op] = max(t.Opcodes[op], n)
	}
	t.Rows = rows
}

func (t *table) save(dir string, earlier *table) error {
	t.Kernel, t.Date = lab.release, time.Now().UTC().Format(time.DateOnly)
	for i := range t.Rows {
		t.Rows[i].Date = t.Date
	}
	t.merge(earlier)
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, resultsFile), text, 0o644)
}
