package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/transcript"
)

const toolsPage = "testdata/tools.md"

// differences say why a line is the kernel's alone, or gorxe's alone. The first that fits counts.
var differences = []struct {
	command, line *regexp.Regexp
	because       string
}{
	{command("rdma -d dev"), line(`caps:`), "`rdma_rxe` claims AUTO_PATH_MIG and CHANGE_PHY_PORT and has neither. gorxe has FLUSH, ATOMIC WRITE and on-demand paging, which have no name in this program."},
	{command("rdma (-[dj] )?resource show"), line(`ib_core|rxe0.*\bpd"?[ :]\d`), "The kernel has a queue pair 1 of its own (ib_core), with a protection domain and a completion queue. gorxe's has none."},
	{command("rdma (-[dj] )?resource show srq"), line(`comm`), "iproute2 6.1 prints a range of queue pair numbers in place of the program's name. The kernel numbers queue pairs in turn, and gorxe at random, so there are no ranges."},
	{command("rdma link add"), line(`(?i)error:`), "gorxe makes devices when its daemon starts. The kernel looks for the network interface."},
	{command("rdma .*statistic"), line(`np_|rp_cnp|rdma_recvs|receive_queue`), "gorxe answers congestion, and counts it under the names of mlx5. It also counts packets that the kernel dropped because the queue of the port was full. `rdma_rxe` does neither."},
	{command("ibstat"), line(`CA type:`), "gorxe has `hca_type`, which `rdma_rxe` of Linux 6.1 lacks."},
	{command("ibstat"), line(`(?i)rate:`), "The interface of the guest reports no speed. That of gorxe is a veth, whose port has 40 Gb/s."},
	{command("perfquery 1|ibsysstat 1|sminfo"), line(``), "A RoCE port of Linux has no queue pair 0, so programs cannot register for it. On gorxe they can, and then find that RoCE has no LIDs and no subnet manager."},
	{command("smpquery -D (switchinfo 0|nodeinfo 0,1)"), line(``), "A RoCE port of Linux has no queue pair 0, so programs cannot register for it. On gorxe they can, and the agent of the port refuses what it does not have."},
	{command("ibaddr|smpquery|ibportstate|perfquery|iblinkinfo|ibnetdiscover|timeout 1 ibsysstat"), line(``), "A RoCE port of Linux has no queue pair 0, so programs cannot register for it. On gorxe they can, and an agent of this port answers."},
}

func command(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(` + pattern + `)`) }
func line(pattern string) *regexp.Regexp    { return regexp.MustCompile(pattern) }

// TestTranscripts: the tools that look at RDMA devices say here what they say on the kernel's
// rdma_rxe, except for differences that testdata/tools.md explains.
func TestTranscripts(t *testing.T) {
	besideOthers(t)
	need(t, "rdma", "rping", "ibv_srq_pingpong", "/usr/sbin/ibstat", "timeout")
	for _, c := range []struct {
		version string
		rank    rank
		release func(*testing.T) release
		parts   string
	}{
		{"44", standard, func(*testing.T) release { return release{} }, "iproute2 infiniband-diags"},
		{"56", complete, newer, "infiniband-diags"},
		{"65", complete, newest, "iproute2 infiniband-diags"},
	} {
		t.Run(c.version, func(t *testing.T) {
			if native != "" || doorbells == "direct" || oneUser || !selection.takes(c.rank) && !*update {
				return
			}
			r := c.release(t)
			wantVersion(t, r, c.version)
			d := oneDaemon(t)
			out := d.run(t, "sh", "-c", transcript.Session, "session", r.root, d.host.addr, transcript.Commands()).ok()
			here, err := transcript.Parse(out)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile("testdata/tools-v" + c.version + "-linux-6.1.192.txt")
			if err != nil {
				t.Fatal(err)
			}
			kernel, err := transcript.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(kernel) != len(here) {
				t.Fatalf("%d commands were recorded on the kernel, and %d ran here", len(kernel), len(here))
			}
			at := 0
			for _, part := range transcript.Parts {
				end := at + len(part.Commands)
				if strings.Contains(c.parts, part.Package) {
					generated(t, toolsPage, part.Package+" beside rdma-core "+c.version, beside(t, kernel[at:end], here[at:end]))
				}
				at = end
			}
		})
	}
}

// beside writes what the kernel's and this device said to the same commands.
func beside(t *testing.T, kernel, here []transcript.Entry) string {
	t.Helper()
	var b, same strings.Builder
	for i, k := range kernel {
		h := here[i]
		if h.Command != k.Command {
			t.Fatalf("the kernel was asked %q, and this device %q", k.Command, h.Command)
		}
		if slices.Equal(h.Lines, k.Lines) && h.Status == k.Status {
			fmt.Fprintf(&same, "  $ %s\n", h.Command)
			for _, line := range append(h.Lines, exit(h.Status)...) {
				fmt.Fprintf(&same, "  %s\n", line)
			}
			continue
		}
		fmt.Fprintf(&b, "```diff\n  $ %s\n", h.Command)
		var why []string
		for _, line := range diff(append(k.Lines, exit(k.Status)...), append(h.Lines, exit(h.Status)...)) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			if line[0] == ' ' {
				continue
			}
			reason := because(h.Command, line)
			if reason == "" {
				t.Errorf("%s: nothing explains %q", h.Command, line)
			} else if !slices.Contains(why, reason) {
				why = append(why, reason)
			}
		}
		fmt.Fprintf(&b, "```\n\n%s\n\n", strings.Join(why, " "))
	}
	return b.String() + "The same on both:\n\n```\n" + same.String() + "```\n"
}

// exit is a line for a status that is not 0.
func exit(status int) []string {
	if status == 0 {
		return nil
	}
	return []string{fmt.Sprintf("(exit status %d)", status)}
}

func because(command, line string) string {
	for _, d := range differences {
		if d.command.MatchString(command) && d.line.MatchString(line) {
			return d.because
		}
	}
	return ""
}

// diff has the lines of both: "- " begins what only a has, "+ " what only b has.
func diff(a, b []string) []string {
	// common[i][j] is the length of the longest common part of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, "  "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			lines = append(lines, "- "+a[i])
			i++
		default:
			lines = append(lines, "+ "+b[j])
			j++
		}
	}
	return lines
}
