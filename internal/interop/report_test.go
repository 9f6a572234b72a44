package interop

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorxe/gorxe/wire"
)

// results are the rows of this run.
var results table

type table struct {
	rows    []row
	samples []packet // of what gorxe sent, for tshark
	opcodes map[wire.Opcode]int
}

type row struct {
	Section string
	Case    string
	Role    string // of gorxe
	Family  family
	Note    string // what the case showed
	Passed  bool

	Sent, Received int // packets, by gorxe
}

func (r *row) result() string {
	if r.Passed {
		return "pass"
	}
	return "**fail**"
}

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// samplesPerOpcode bounds what tshark has to read.
const samplesPerOpcode = 200

func (t *table) sample(p packet, r *roce) {
	if r == nil || len(r.bth) == 0 {
		return
	}
	if t.opcodes == nil {
		t.opcodes = map[wire.Opcode]int{}
	}
	op := r.opcode()
	if t.opcodes[op] < samplesPerOpcode {
		t.samples = append(t.samples, p)
	}
	t.opcodes[op]++
}

func (t *table) failed() int {
	n := 0
	for i := range t.rows {
		if !t.rows[i].Passed {
			n++
		}
	}
	return n
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\ngorxe and %s, link MTU %d\n", lab.release, linkMTU)
	for _, r := range t.rows {
		fmt.Fprintf(w, "%-12s %-34s %-7s %-5s %6d sent %6d received  %s %s\n",
			r.Section, r.Case, r.Role, r.Family, r.Sent, r.Received, r.result(), r.Note)
	}
	fmt.Fprintf(w, "%d cases, %d failed\n", len(t.rows), t.failed())
}

// wireshark lets tshark read the samples: it is to find no malformed field.
func (t *table) wireshark(out string) error {
	path := filepath.Join(out, "sample.pcapng")
	if err := save(path, t.samples); err != nil {
		return err
	}
	args := []string{"-n", "-r", path, "-Y", "_ws.malformed || !infiniband.bth"}
	// Payloads that happen to look like another protocol are none.
	for _, guesser := range []string{
		"smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband.eoib",
		"infiniband_sdp", "fcoib", "drbd", "ethertype", "ipoib",
	} {
		args = append(args, "--disable-protocol", guesser)
	}
	var said, complaint bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tshark: %w\n%s", err, complaint.String())
	}
	if said.Len() > 0 {
		return fmt.Errorf("tshark finds malformed packets in %s:\n%s", path, said.String())
	}
	fmt.Printf("interop: tshark finds nothing malformed in %d packets of gorxe's, with %d opcodes\n", len(t.samples), len(t.opcodes))
	return nil
}

const preamble = `# Interoperation with Linux's rdma_rxe

What ` + "`make interop`" + ` found: gorxe on one end of a cable (a tap), a Debian kernel with
rdma_rxe in an emulated machine on the other. The run writes this file. For every
packet the ICRC was checked with the IP header that it had on the cable, and the
headers were parsed; tshark read a sample and found nothing malformed.

`

// write writes the table as a page of the documentation.
func (t *table) write(path string) error {
	var b bytes.Buffer
	b.WriteString(preamble)
	fmt.Fprintf(&b, "| | |\n|---|---|\n| kernel | %s |\n| date | %s |\n| link MTU | %d |\n| cases | %d, of which %d failed |\n| opcodes that gorxe sent | %s |\n",
		lab.release, time.Now().UTC().Format(time.DateOnly), linkMTU, len(t.rows), t.failed(), t.opcodeList())
	section := ""
	for _, r := range t.rows {
		if r.Section != section {
			section = r.Section
			fmt.Fprintf(&b, "\n## %s\n\n| case | gorxe is | over | packets sent, received | result | |\n|---|---|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d, %d | %s | %s |\n", r.Case, r.Role, r.Family, r.Sent, r.Received, r.result(), r.Note)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func (t *table) opcodeList() string {
	var ops []wire.Opcode
	for op := range t.opcodes {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	var names []string
	for _, op := range ops {
		names = append(names, fmt.Sprintf("%v", op))
	}
	return strings.Join(names, ", ")
}
