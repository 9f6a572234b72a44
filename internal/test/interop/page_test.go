package interop

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/wire"
)

// pages are the files that the results are written to, in testdata/pcaps.
var pages = []struct {
	file, preamble string
	has            func(section string) bool
	verbs          bool // it has what concerns the data path
	defects        []*defect
}{
	{"interop.md", `# Every case of the interoperation tests

` + "`make interop-full`" + ` writes this file, [interop-rdma-cm.md](interop-rdma-cm.md) with the cases of
RDMA CM, and [interop-mlx5.md](interop-mlx5.md) with those of mlx5_0. docs/interop.md says what the tests do and what they found.

Where a case has two results, gorxe was the client (the requester) in the first one, and
the server (the responder) in the second one.

`, func(section string) bool { return section != cmSection && section != mlx5Section }, true, verbsDefects},
	{"interop-rdma-cm.md", `# Every case of RDMA CM between gorxe and the kernel

` + "`make interop-full`" + ` writes this file. docs/rdma-cm.md says what the tests do and what they
found. In each case tshark read all packets, and ` + "`gorxe pcap check`" + ` found nothing but
the defects below.

Where a case has two results, gorxe was the client in the first one, and the server in the
second one. A third one is of two programs on the kernel's device, without gorxe.

`, func(section string) bool { return section == cmSection }, false, cmDefects},
	{"interop-mlx5.md", `# Every case between gorxe's mlx5_0 and the kernel's device

` + "`make interop-full`" + ` writes this file. docs/interop.md says what the tests do and what they
found. gorxe's device is like a ConnectX, and libmlx5 drives it.

Where a case has two results, gorxe was the client (the requester) in the first one, and
the server (the responder) in the second one.

`, func(section string) bool { return section == mlx5Section }, true, verbsDefects},
}

// page has the results of every kernel.
type page struct {
	bytes.Buffer
	tables []table
}

// writePages writes the last results of each kernel. A run of some cases leaves out a page
// that has none of them.
func writePages(dir string) error {
	files, err := filepath.Glob(filepath.Join(outDir, "*", resultsFile))
	if err != nil {
		return err
	}
	for _, to := range pages {
		var p page
		for _, file := range files {
			t, err := load(filepath.Dir(file))
			if err != nil {
				return err
			}
			t.Rows = slices.DeleteFunc(t.Rows, func(r row) bool { return !to.has(r.Section) })
			if len(t.Rows) > 0 {
				p.tables = append(p.tables, t)
			}
		}
		if len(p.tables) == 0 {
			continue
		}
		p.WriteString(to.preamble)
		p.summary(to.verbs)
		p.defects(to.defects)
		p.cases()
		p.settled()
		if err := os.WriteFile(filepath.Join(dir, to.file), p.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// line writes a line of a table with a cell for each kernel.
func (p *page) line(name string, cell func(*table) string) {
	fmt.Fprintf(p, "| %s |", name)
	for i := range p.tables {
		fmt.Fprintf(p, " %s |", cell(&p.tables[i]))
	}
	p.WriteString("\n")
}

// defects lists the known defects, and the cases of these runs that met them. A defect that
// ends a requester under faults depends on timing.
func (p *page) defects(defects []*defect) {
	p.WriteString("\n## Defects of the kernel\n\n| defect | capture, in testdata/pcaps | met by |\n|---|---|---|\n")
	for _, d := range defects {
		var met []string
		for _, t := range p.tables {
			for _, r := range t.Rows {
				if at := fmt.Sprintf("%s (%s)", r.Case, t.Kernel); strings.Contains(r.Note, d.what) && !slices.Contains(met, at) {
					met = append(met, at)
				}
			}
		}
		fmt.Fprintf(p, "| %s | %s | %s |\n", d.what, d.capture, cmp.Or(strings.Join(met, "; "), "nothing this time"))
	}
}

func (p *page) rule(columns int) { p.WriteString(strings.Repeat("|---", columns) + "|\n") }

func (p *page) summary(opcodes bool) {
	p.line("kernel", func(t *table) string { return t.Kernel })
	p.rule(1 + len(p.tables))
	p.line("date", func(t *table) string { return t.Date })
	p.line("result", (*table).tally)
	p.line("packets that gorxe sent, that it received", func(t *table) string {
		sent, received := 0, 0
		for _, r := range t.Rows {
			sent, received = sent+r.Sent, received+r.Received
		}
		return fmt.Sprintf("%d, %d", sent, received)
	})
	p.line("of which tshark read", func(t *table) string {
		read := 0
		for _, r := range t.Rows {
			read += r.Read
		}
		return fmt.Sprint(read)
	})
	if opcodes {
		p.line("opcodes that gorxe sent", func(t *table) string { return opcodeList(t.Opcodes) })
	}
	fmt.Fprintf(p, "\nLink MTU %d.\n", linkMTU)
}

func opcodeList(packets map[wire.Opcode]int) string {
	var ops []wire.Opcode
	for op := range packets {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	var names []string
	for _, op := range ops {
		names = append(names, op.String())
	}
	return strings.Join(names, ", ")
}

// caseKey identifies the rows that form one line of the page.
type caseKey struct {
	section, name string
	family        family
}

func (r *row) key() caseKey { return caseKey{r.Section, r.Case, r.Family} }

func (p *page) cases() {
	var sections []string
	var order []caseKey
	for _, t := range p.tables {
		for _, r := range t.Rows {
			if !slices.Contains(sections, r.Section) {
				sections = append(sections, r.Section)
			}
			if !slices.Contains(order, r.key()) {
				order = append(order, r.key())
			}
		}
	}
	for _, section := range sections {
		fmt.Fprintf(p, "\n## %s\n\n", section)
		p.line("case | over", func(t *table) string { return t.Kernel })
		p.rule(2 + len(p.tables))
		for _, key := range order {
			if key.section == section {
				name := key.name
				if notes := p.notes(key); notes != "" {
					name += ": " + notes
				}
				p.line(name+" | "+string(key.family), func(t *table) string { return t.cell(key) })
			}
		}
	}
}

// cell returns a kernel's results in a case.
func (t *table) cell(key caseKey) string {
	var all []string
	for i := range t.Rows {
		if t.Rows[i].key() == key {
			r := &t.Rows[i]
			text := r.result()
			if r.Date != t.Date {
				text += " (" + r.Date + ")"
			}
			if r.Read < r.Sent {
				text += fmt.Sprintf(" (tshark read %d of %d packets)", r.Read, r.Sent)
			}
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// notes returns the notes of a case. A note that only some rows have names these rows.
func (p *page) notes(key caseKey) string {
	type said struct {
		note  string
		where []string
	}
	var all []*said
	rows := 0
	for _, t := range p.tables {
		for _, r := range t.Rows {
			if r.key() != key {
				continue
			}
			rows++
			at := slices.IndexFunc(all, func(s *said) bool { return s.note == r.Note })
			if at < 0 {
				at = len(all)
				all = append(all, &said{note: r.Note})
			}
			all[at].where = append(all[at].where, t.Kernel+", "+r.Role)
		}
	}
	var texts []string
	for _, s := range all {
		switch {
		case s.note == "":
		case len(s.where) == rows:
			texts = append(texts, s.note)
		default:
			texts = append(texts, fmt.Sprintf("%s (%s)", s.note, strings.Join(s.where, "; ")))
		}
	}
	return strings.Join(texts, "; ")
}

// settled lists behavior that was only known from the driver's source, and that a run has
// now shown.
func (p *page) settled() {
	var order []string
	kernels := map[string][]string{}
	for _, t := range p.tables {
		for _, r := range t.Rows {
			for line := range strings.Lines(r.Settled) {
				text := strings.TrimSpace(line)
				if kernels[text] == nil {
					order = append(order, text)
				}
				if !slices.Contains(kernels[text], t.Kernel) {
					kernels[text] = append(kernels[text], t.Kernel)
				}
			}
		}
	}
	p.WriteString("\n## What the driver's source left open, and the run decided\n\n")
	for _, t := range p.tables {
		var h habits
		for i := range t.Rows {
			h.add(&t.Rows[i].Habits)
		}
		fmt.Fprintf(p, "- %s (%s)\n", &h, t.Kernel)
	}
	for _, text := range order {
		fmt.Fprintf(p, "- %s (%s)\n", text, strings.Join(kernels[text], "; "))
	}
}
