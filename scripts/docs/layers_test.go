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

var update = flag.Bool("update", false, "write the imports of .golangci.yml into the table of ARCHITECTURE.md")

const tableHead = "| package | is | imports | must not |\n|---|---|---|---|\n"

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

// table reads the rows of ARCHITECTURE.md's table of packages: name and imports.
func table(t *testing.T) map[string]layer {
	t.Helper()
	_, text, found := strings.Cut(read(t, "ARCHITECTURE.md"), tableHead)
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of packages")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	layers := make(map[string]layer)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			t.Fatalf("a row of %d cells: %s", len(cells), line)
		}
		imports := strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", "")
		var l layer
		switch rest, open := strings.CutPrefix(imports, "not "); {
		case open:
			l.imports = strings.Split(rest, ", ")
		case imports == "anything":
		case imports == "nothing":
			l.closed = true
		default:
			l = layer{true, strings.Split(imports, ", ")}
		}
		slices.Sort(l.imports)
		for _, name := range strings.Split(strings.ReplaceAll(strings.TrimSpace(cells[0]), "`", ""), ", ") {
			layers[name] = l
		}
	}
	return layers
}

// writeImports writes the imports of the rules into the table's rows.
func writeImports(t *testing.T, rules map[string]layer) {
	t.Helper()
	text := read(t, "ARCHITECTURE.md")
	start := strings.Index(text, tableHead) + len(tableHead)
	var out strings.Builder
	for line := range strings.Lines(text[start:]) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 {
			name, _, _ := strings.Cut(strings.Trim(cells[1], " `"), "`")
			if l, ok := rules[name]; ok {
				cells[3] = " " + l.String() + " "
			}
		}
		out.WriteString(strings.Join(cells, "|"))
	}
	if err := os.WriteFile(path.Join(root, "ARCHITECTURE.md"), []byte(text[:start]+out.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestLayers: the table of packages in ARCHITECTURE.md is what depguard enforces. With
// -update it writes the imports of the rules into the table.
func TestLayers(t *testing.T) {
	rules := depguard(t)
	if *update {
		writeImports(t, rules)
	}
	rows := table(t)
	if len(rules) < 15 {
		t.Fatalf("only %d packages have a rule in .golangci.yml", len(rules))
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s has a rule in .golangci.yml, and no row in ARCHITECTURE.md", name)
		} else if row.String() != rules[name].String() {
			t.Errorf("%s imports, by ARCHITECTURE.md:  %v\n\tby .golangci.yml:  %v", name, row, rules[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := rules[name]; !ok {
			t.Errorf("%s has a row in ARCHITECTURE.md, and no rule in .golangci.yml", name)
		}
	}
}

// forTests are the directories whose packages only tests and scripts use.
var forTests = []string{
	"internal/cm/sim", "internal/test/bench", "internal/test/e2e", "internal/test/interop", "internal/test/netns", "internal/test/simnet",
	"internal/test", "internal/test/testenv", "internal/test/udpbaseline", "rxe/sim", "scripts",
}

// TestEveryPackageHasARow: no package of the product is missing from the table.
func TestEveryPackageHasARow(t *testing.T) {
	rows := table(t)
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
		if !within(name, forTests) && !within(name, slices.Collect(maps.Keys(rows))) {
			t.Errorf("%s has no row in ARCHITECTURE.md", name)
		}
	}
	for name := range rows {
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
		"rocev2/capture":       "internal/checksum, wire",
		"examples":             "not rxe, wire",
		"rocev2/conformance":   "rocev2/capture, wire",
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
