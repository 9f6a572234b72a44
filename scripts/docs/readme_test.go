package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeLinks: the README leads to every page of docs. TestLinks follows its links.
func TestReadmeLinks(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	linked := make(map[string]bool)
	for _, part := range strings.Split(string(text), "](")[1:] {
		target, _, _ := strings.Cut(part, ")")
		target, _, _ = strings.Cut(target, "#")
		linked[target] = true
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v, %v", pages, err)
	}
	for _, page := range pages {
		name, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		if !linked[name] {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}
