package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// `make compat` writes the tables of documents; the tests compare.
var update = flag.Bool("update", false, "write the tables of docs/compatibility.md, testdata/rdma-core-tests.md and testdata/tools.md")

const compatibilityFile = "../../../docs/compatibility.md"

// compatibility compares a generated section of docs/compatibility.md with what a test
// found, or replaces it.
func compatibility(t *testing.T, section, table string) {
	t.Helper()
	generated(t, compatibilityFile, section, table)
}

// generated is compatibility for any document.
func generated(t *testing.T, file, section, table string) {
	t.Helper()
	if native != "" {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin := fmt.Sprintf("<!-- begin %s: make compat -->\n", section)
	end := fmt.Sprintf("<!-- end %s -->\n", section)
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section %q", file, section)
	}
	if old == table {
		return
	}
	if !*update {
		t.Errorf("%s, %s, is not what this run found: run `make compat`. It found:\n%s", file, section, table)
		return
	}
	if err := os.WriteFile(file, []byte(head+begin+table+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
