package docs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gorxe/gorxe/"

var update = flag.Bool("update", false, "write testdata/layers.md from .golangci.yml, and the index of docs/design")

const tableHead = "| package | is | files |\n|---|---|---|\n"

// layer is what one package may import of this module.
type layer struct {
	closed  bool     // only what imports lists, or else anything but that
	imports []string // sorted
}

func (l layer) String() string {
	list := strings.Join(l.imports, ", ")
	switch {
	case !l.closed && list == "":
		return "anything"
	case !l.closed:
		return "not " + list
	case list == "":
		return "nothing"
	default:
		return list
	}
}

// depguard reads the rules of .golangci.yml: the layer of each package that a rule's
// files name.
func depguard(t *testing.T) map[string]layer {
	t.Helper()
	_, rules, found := strings.Cut(read(t, ".golangci.yml"), "\n    depguard:\n      rules:\n")
	if !found {
		t.Fatal(".golangci.yml has no rules for depguard")
	}
	rules, _, _ = strings.Cut(rules, "\n  exclusions:")
	layers := make(map[string]layer)
	files := regexp.MustCompile(`"\*\*/([^"]*?)(?:/\*\*)?/\*\.go"`)
	listed := regexp.MustCompile(`(?m)^ +- (pkg: )?"?(\S+?)"?( +#.*)?$`)
	// A rule begins with its name, eight blanks in.
	for _, r := range regexp.MustCompile(`(?m)^ {8}(\S+):\n((?: {9,}.*\n|\n)*)`).FindAllStringSubmatch(rules+"\n", -1) {
		allow, deny, _ := strings.Cut(r[2], " deny:\n")
		var l layer
		var denied []string
		for _, m := range listed.FindAllStringSubmatch(deny, -1) {
			pkg := strings.TrimSuffix(m[2], "$")
			if pkg+"/" == module || pkg == "github.com" {
				l.closed = true
			} else if own, ok := strings.CutPrefix(pkg, module); ok {
				denied = append(denied, own)
			}
		}
		l.imports = denied
		if l.closed {
			l.imports = nil
			for _, m := range listed.FindAllStringSubmatch(allow, -1) {
				if own, ok := strings.CutPrefix(strings.TrimSuffix(m[2], "$"), module); ok {
					l.imports = append(l.imports, own)
				}
			}
		}
		slices.Sort(l.imports)
		names := files.FindAllStringSubmatch(r[2], -1)
		if len(names) == 0 {
			t.Errorf("the rule %s of depguard names no files", r[1])
		}
		for _, m := range names {
			if _, twice := layers[m[1]]; twice {
				t.Errorf("depguard has two rules for %s", m[1])
			}
			layers[m[1]] = l
		}
	}
	return layers
}

// rows reads the names in ARCHITECTURE.md's table of packages. A name dir/* stands for each package
// in dir.
func rows(t *testing.T) []string {
	t.Helper()
	_, text, found := strings.Cut(read(t, "ARCHITECTURE.md"), tableHead)
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	var names []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		for name := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(cells[0]), "`", ""), ", ") {
			if dir, all := strings.CutSuffix(name, "/*"); all {
				names = append(names, packagesIn(dir)...)
			} else {
				names = append(names, name)
			}
		}
	}
	return names
}

// packagesIn returns the packages directly in a directory.
func packagesIn(dir string) (names []string) {
	for _, name := range files() {
		if p := path.Dir(name); strings.HasSuffix(name, ".go") && path.Dir(p) == dir && !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}

const layersPage = "scripts/docs/testdata/layers.md"

// page returns what testdata/layers.md says of the rules.
func page(rules map[string]layer) string {
	var b strings.Builder
	b.WriteString(`# What each package may import

[ARCHITECTURE.md](../../../ARCHITECTURE.md) says what the packages are. This page lists which packages of
this module each may import, or after "not" may not. ` + "`make lint`" + ` enforces it.

The page is made from the depguard rules in ` + "`.golangci.yml`" + `:
` + "`go test ./scripts/docs -run TestLayers -update`" + `.

| package | imports |
|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, rules[name])
	}
	return b.String()
}

// TestLayers: testdata/layers.md is what depguard enforces, and ARCHITECTURE.md has a row for
// each package with a rule. With -update it writes the page.
func TestLayers(t *testing.T) {
	rules := depguard(t)
	if len(rules) < 15 {
		t.Fatalf("only %d packages have a rule in .golangci.yml", len(rules))
	}
	want := page(rules)
	if *update {
		if err := os.WriteFile(path.Join(root, layersPage), []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, layersPage); got != want {
		t.Errorf("%s is not what .golangci.yml says: run this test with -update", layersPage)
	}
	names := rows(t)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if !slices.Contains(names, name) {
			t.Errorf("%s has a rule in .golangci.yml, and no row in ARCHITECTURE.md", name)
		}
	}
	for _, name := range names {
		if _, ok := rules[name]; !ok {
			t.Errorf("%s has a row in ARCHITECTURE.md, and no rule in .golangci.yml", name)
		}
	}
}

// forTests are the directories whose packages only tests and scripts use.
var forTests = []string{
	"internal/cm/sim", "internal/test/bench", "internal/test/e2e", "internal/test/interop", "internal/test/netns", "internal/test/script", "internal/test/simnet",
	"internal/segment/sim", "internal/test", "internal/test/testenv", "internal/test/udpbaseline", "rxe/sim", "scripts",
}

// TestEveryPackageHasARow: no package of the product is missing from the table.
func TestEveryPackageHasARow(t *testing.T) {
	names := rows(t)
	packages := make(map[string]bool)
	for _, name := range files() {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "testdata/") {
			packages[path.Dir(name)] = true
		}
	}
	if len(packages) < 25 {
		t.Fatalf("only %d packages were found", len(packages))
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if !within(name, forTests) && !within(name, names) {
			t.Errorf("%s has no row in ARCHITECTURE.md", name)
		}
	}
	for _, name := range names {
		if !exists(name) {
			t.Errorf("ARCHITECTURE.md has a row for %s, which does not exist", name)
		}
	}
}

// within reports whether name is one of the directories, or lies in examples, which has
// one row for all.
func within(name string, dirs []string) bool {
	for _, d := range dirs {
		if name == d || (slices.Contains(forTests, d) || d == "examples") && strings.HasPrefix(name, d+"/") {
			return true
		}
	}
	return false
}

// TestDepguardReader: the reader of .golangci.yml understands both kinds of rules.
func TestDepguardReader(t *testing.T) {
	layers := depguard(t)
	for name, want := range map[string]string{
		"wire":                 "nothing",
		"rocev2/capture":       "wire, wire/checksum",
		"examples":             "not rxe, wire",
		"rocev2/conformance":   "internal/explain/plural, rocev2/capture, wire",
		"internal/pcap/replay": "",
	} {
		got := layers[name].String()
		if want != "" && got != want {
			t.Errorf("%s imports %s, want %s", name, got, want)
		}
		if got == fmt.Sprint(layer{}) {
			t.Errorf("%s has no rule", name)
		}
	}
}
