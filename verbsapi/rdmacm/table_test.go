package rdmacm

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/test/calls"
	"github.com/gorxe/gorxe/internal/test/must"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

const (
	tableFile = "../../docs/verbs.md"
	header    = "/usr/include/rdma/rdma_cma.h"
)

// TestCMTable: docs/verbs.md has every call of librdmacm once, with Go calls that exist,
// and a test that makes the first of them, itself or through the helpers of the tests.
func TestCMTable(t *testing.T) {
	page, err := os.ReadFile(tableFile)
	must.OK(t, err)
	_, table, found := strings.Cut(string(page), "\n## Calls of librdmacm\n")
	if !found {
		t.Fatal("no table")
	}
	code := calls.Parse(t)
	goCall := regexp.MustCompile("`([\\w.]+)`")
	rows := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(rdma_\\w+)` \\| (.*?) \\| (?:`(\\w+)` )?\\|$").FindAllStringSubmatch(table, -1) {
		if rows[m[1]] {
			t.Errorf("%s is listed twice", m[1])
		}
		rows[m[1]] = true
		if strings.HasPrefix(m[2], "- ") {
			continue
		}
		named := goCall.FindAllStringSubmatch(m[2], -1)
		for _, c := range named {
			if !code.Has(c[1]) {
				t.Errorf("%s: there is no %s", m[1], c[1])
			}
		}
		if first := named[0][1]; !code.Reaches(m[3], first) {
			t.Errorf("%s: %q does not call %s", m[1], m[3], first)
		}
	}
	if lines := strings.Count(table, "\n| `"); lines != len(rows) {
		t.Errorf("%d lines, %d of them well formed", lines, len(rows))
	}

	text, err := os.ReadFile(header)
	if err != nil {
		testenv.Missing(t, "NOT COMPARED with librdmacm: install the Debian package librdmacm-dev")
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^[a-z_][\w\s*]*?\*?\b(rdma_\w+)\(`).FindAllStringSubmatch(string(text), -1) {
		declared = append(declared, m[1])
	}
	if len(declared) < 30 {
		t.Fatalf("only %d calls in %s", len(declared), header)
	}
	for _, c := range declared {
		if !rows[c] {
			t.Errorf("%s is not in %s", c, tableFile)
		}
	}
	for c := range rows {
		if !slices.Contains(declared, c) {
			t.Errorf("%s is not in %s", c, header)
		}
	}
}
