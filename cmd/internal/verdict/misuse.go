package verdict

import (
	"errors"
	"fmt"
	"os"

	"github.com/gorxe/gorxe/internal/explain/plural"
	"github.com/gorxe/gorxe/internal/explain/sanitize"
)

// found is what the sanitizer found, with the lines of the program; nil: there was none.
func (r *Run) found() *sanitize.Report {
	if r.Report == nil {
		return nil
	}
	return r.Report.Sanitizer
}

// misuse is how many errors the sanitizer found.
func (r *Run) misuse() int {
	if r.found() == nil {
		return 0
	}
	return r.found().Count(sanitize.Error)
}

// blameMisuse has a sentence for each error that the sanitizer found.
func (r *Run) blameMisuse() (list []event) {
	if r.misuse() == 0 {
		return nil
	}
	for _, f := range r.found().Worst() {
		if f.Level == sanitize.Error && len(list) < maxRows {
			list = append(list, event{text: fmt.Sprintf("**The program** `%s` misuses verbs: %s.", code(f.Program), cell(f.Brief())), bad: true})
		}
	}
	return list
}

func (r *Run) misuseSection(p *page) {
	found := r.found()
	if found == nil {
		return
	}
	p.line("\n## Misuse of verbs\n")
	list := found.Worst()
	if len(list) == 0 {
		p.line("The sanitizer found none.")
	}
	for i, f := range list {
		if i == maxRows {
			p.line("- %s more in `%s`.", plural.Of(len(list)-maxRows, "finding"), MisuseFile)
			break
		}
		p.line("- %s %s", f.Level, cell(f.Brief()))
	}
}

// writeMisuse writes the findings, also for code review.
func (r *Run) writeMisuse(dir string) error {
	found := r.found()
	if found == nil {
		return nil
	}
	root, _ := os.Getwd() // without it, paths are absolute
	return errors.Join(writeJSON(dir, MisuseFile, found), writeJSON(dir, SARIFFile, found.SARIF("", root)))
}
