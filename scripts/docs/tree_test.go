package docs

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// root is the checkout, seen from this package.
const root = "../.."

// files returns all files of the checkout, by their paths in it.
var files = sync.OnceValue(func() []string {
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		panic("git ls-files: " + err.Error())
	}
	var list []string
	for name := range strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' }) {
		if _, err := os.Lstat(path.Join(root, name)); err == nil {
			list = append(list, name)
		}
	}
	return list
})

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents are all Markdown files but those that tests generate.
func documents(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, name := range files() {
		if strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/") {
			list = append(list, name)
		}
	}
	if len(list) < 20 {
		t.Fatalf("only %d documents were found", len(list))
	}
	return list
}

// source returns all text that Go files hold, tests included, outside of testdata.
var source = sync.OnceValue(func() string {
	var b strings.Builder
	for _, name := range files() {
		if path.Ext(name) == ".go" && !strings.Contains(name, "testdata/") {
			text, err := os.ReadFile(path.Join(root, name))
			if err != nil {
				panic(err)
			}
			b.Write(text)
		}
	}
	return b.String()
})

// scripts returns the text of all other files that can define a variable.
var scripts = sync.OnceValue(func() string {
	var b strings.Builder
	for _, name := range files() {
		if path.Ext(name) == ".sh" || name == "Makefile" || name == ".ci/run" {
			text, err := os.ReadFile(path.Join(root, name))
			if err != nil {
				panic(err)
			}
			b.Write(text)
		}
	}
	return b.String()
})

// exists reports whether a file or directory has this path. A * stands for a part of a
// name, and the ending .go may be missing: rxe/timer means rxe/timer.go.
func exists(name string) bool {
	name = strings.TrimSuffix(name, "/")
	if strings.HasPrefix(name, "bin/") {
		return true // made by make
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `[^/]*`)
	re := regexp.MustCompile(`^` + pattern + `($|/)`)
	for _, f := range files() {
		if re.MatchString(f) {
			return true
		}
	}
	return false
}

// existsBase reports whether a file has this name, in whatever directory.
func existsBase(name string) bool {
	for _, f := range files() {
		if f == name || strings.HasSuffix(f, "/"+name) {
			return true
		}
	}
	return false
}
