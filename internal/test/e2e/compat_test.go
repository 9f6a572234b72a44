package e2e

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// `make compat` writes the tables of docs/compatibility.md; the tests compare.
var update = flag.Bool("update", false, "write the tables of docs/compatibility.md")

const compatibilityFile = "../../../docs/compatibility.md"

// compatibility compares a generated section of the document with what a test
// found, or replaces it.
func compatibility(t *testing.T, section, table string) {
	t.Helper()
	if native != "" {
		return
	}
	text, err := os.ReadFile(compatibilityFile)
	if err != nil {
		t.Fatal(err)
	}
	begin := fmt.Sprintf("<!-- begin %s: make compat -->\n", section)
	end := fmt.Sprintf("<!-- end %s -->\n", section)
	head, rest, ok := strings.Cut(string(text), begin)
	old, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section %q", compatibilityFile, section)
	}
	if old == table {
		return
	}
	if !*update {
		t.Errorf("docs/compatibility.md, %s, is not what this run found: run `make compat`. It found:\n%s", section, table)
		return
	}
	if err := os.WriteFile(compatibilityFile, []byte(head+begin+table+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
