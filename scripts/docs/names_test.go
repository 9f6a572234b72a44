package docs

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	// A path begins with a directory of the checkout.
	pathName = regexp.MustCompile(`(^|[\s` + "`" + `("'=\[])(?:\./)?((?:wire|rxe|rocev2|verbsapi|internal|cmd|scripts|docs|dist|testdata|examples|\.ci)/[\w./*-]*[\w*/])`)
	// A file is named without its directory where that is clear.
	goFileName = regexp.MustCompile(`(^|[\s` + "`" + `(,:])([a-z][\w/]*\.go)\b`)
	testName   = regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z]\w*)`)
	makeTarget = regexp.MustCompile("(?m)(?:`|^ {4}|^)make ([a-z][a-z0-9-]*)(?:`|  |$| [A-Z]+=| &&)")
	variable   = regexp.MustCompile(`\b(GORXE_[A-Z_]+)\b`)
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	symbol     = regexp.MustCompile(`\b(verbsapi|conformance|capture)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
)

// eachMatch calls check with what re finds in the documents, and where.
func eachMatch(t *testing.T, re *regexp.Regexp, group, least int, check func(at, found string)) {
	t.Helper()
	n := 0
	for _, doc := range documents(t) {
		line := 0
		for text := range strings.Lines(read(t, doc)) {
			line++
			for _, m := range re.FindAllStringSubmatch(strings.TrimRight(text, "\n"), -1) {
				n++
				check(doc, m[group])
			}
		}
	}
	if n < least {
		t.Errorf("only %d names were checked, not %d: the pattern finds too little", n, least)
	}
}

// TestPaths: a file or directory that a document names exists.
func TestPaths(t *testing.T) {
	eachMatch(t, pathName, 2, 80, func(at, found string) {
		if strings.Contains(found, "...") {
			found, _, _ = strings.Cut(found, "...") // a pattern of packages
		}
		if !exists(found) && !exists(found+".go") {
			t.Errorf("%s names %s, which does not exist", at, found)
		}
	})
}

// TestFileNames: the same for Go files that are named without a directory.
func TestFileNames(t *testing.T) {
	eachMatch(t, goFileName, 2, 10, func(at, found string) {
		if !existsBase(found) {
			t.Errorf("%s names %s, which does not exist", at, found)
		}
	})
}

// TestTests: a test or benchmark that a document names exists, or begins so: -run takes
// the beginning of a name.
func TestTests(t *testing.T) {
	eachMatch(t, testName, 1, 20, func(at, found string) {
		if !slices.ContainsFunc(tests(), func(name string) bool { return strings.HasPrefix(name, "func "+found) }) {
			t.Errorf("%s names %s, which does not exist", at, found)
		}
	})
}

// tests are the names of all tests, benchmarks and fuzz targets.
var tests = sync.OnceValue(func() []string {
	return regexp.MustCompile(`func (?:Test|Benchmark|Fuzz)[A-Z]\w*`).FindAllString(source(), -1)
})

func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	eachMatch(t, makeTarget, 1, 15, func(at, found string) {
		if !regexp.MustCompile(`(?m)^` + found + `:`).MatchString(makefile) {
			t.Errorf("%s names make %s, which does not exist", at, found)
		}
	})
}

func TestVariables(t *testing.T) {
	eachMatch(t, variable, 1, 10, func(at, found string) {
		if !strings.Contains(source(), `"`+found) && !strings.Contains(scripts(), found) {
			t.Errorf("%s names %s, which nothing reads", at, found)
		}
	})
}

// TestLinks: a link to a file of the checkout leads to it, and to a heading in it.
func TestLinks(t *testing.T) {
	eachMatch(t, link, 1, 20, func(at, found string) {
		if strings.Contains(found, "://") {
			return
		}
		file, anchor, _ := strings.Cut(found, "#")
		if file = path.Join(path.Dir(at), file); strings.HasPrefix(found, "#") {
			file = at
		}
		if _, err := os.Stat(path.Join(root, file)); err != nil {
			t.Errorf("%s links to %s: %v", at, found, err)
			return
		}
		if anchor != "" && !strings.Contains(anchors(read(t, file)), " "+anchor+" ") {
			t.Errorf("%s links to %s: there is no such heading", at, found)
		}
	})
}

// anchors are the names that GitHub gives to the headings of a document, with blanks
// around.
func anchors(text string) string {
	out := " "
	for line := range strings.Lines(text) {
		if head, ok := strings.CutPrefix(line, "#"); ok {
			head = strings.ToLower(strings.TrimSpace(strings.TrimLeft(head, "#")))
			head = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(head, "")
			out += strings.ReplaceAll(head, " ", "-") + " "
		}
	}
	return out
}

// TestSymbols: what a document names in a public package is declared there, or is a
// method or a field.
func TestSymbols(t *testing.T) {
	eachMatch(t, symbol, 0, 5, func(at, found string) {
		m := symbol.FindStringSubmatch(found)
		for _, name := range m[2:] {
			if name != "" && !declared()[name] {
				t.Errorf("%s names %s, but %s is not declared", at, found, name)
			}
		}
	})
}

// declared are the names that the source declares, methods and fields included.
var declared = sync.OnceValue(func() map[string]bool {
	names := make(map[string]bool)
	for _, m := range declaration.FindAllStringSubmatch(source(), -1) {
		names[m[1]+m[2]] = true
	}
	return names
})

var declaration = regexp.MustCompile(`(?m)^(?:func|type|const|var) (?:\([^)]*\) )?(\w+)|^\t(\w+)`)
