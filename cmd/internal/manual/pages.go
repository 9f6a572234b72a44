package manual

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Page is one manual page.
type Page struct {
	Name    string // gorxe-run
	Section int
	Text    string // in roff
}

// File returns the page's path below a directory like /usr/share/man.
func (p Page) File() string { return fmt.Sprintf("man%d/%s.%[1]d", p.Section, p.Name) }

// Build is what the foot of each page says.
type Build struct {
	Version string
	Date    time.Time
}

// Pages returns a page for each command of the application, and for each topic.
func Pages(app *kong.Application, build Build) []Page {
	pages := commandPages(app.Node, app.Node, build)
	for _, t := range Topics() {
		pages = append(pages, topicPage(app.Name, t, build))
	}
	return pages
}

func commandPages(root, node *kong.Node, build Build) []Page {
	pages := []Page{commandPage(root, node, build)}
	for _, c := range visible(node.Children) {
		pages = append(pages, commandPages(root, c, build)...)
	}
	return pages
}

// commandPage makes the page of one command. Of the commands below it there is only a line each.
func commandPage(root, node *kong.Node, build Build) Page {
	name := pageName(node)
	help, detail, synopsis := node.Help, node.Detail, root.Name+" "+node.Summary()
	if node == root {
		help, detail, _ = strings.Cut(help, "\n")
		synopsis = node.Name + " <command> [flags]"
	}
	parts := split(strings.TrimSpace(detail))
	w := newRoff(1, name, build)
	w.name(name, short(strings.TrimSpace(help)))
	w.section("Synopsis", synopsis)
	w.section("Description", cmp.Or(parts.description, help))
	options(w, node)
	commands(w, node)
	w.section("Arguments", arguments(node))
	w.section("Exit status", cmp.Or(parts.exit, usualExit))
	w.section("Environment", facts(variables, node))
	w.section("Files", facts(paths, node))
	w.section("Examples", parts.examples)
	w.section("See also", seeAlso(root, node))
	return Page{name, 1, w.String()}
}

// options writes the flags of a command, sorted.
func options(w *roff, node *kong.Node) {
	flags := slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Hidden })
	slices.SortFunc(flags, func(a, b *kong.Flag) int { return strings.Compare(a.Summary(), b.Summary()) })
	for i, f := range flags {
		if i == 0 {
			w.heading("Options")
		}
		form := f.Summary()
		if f.Short != 0 {
			form = fmt.Sprintf("-%c, %s", f.Short, form)
		}
		w.tagged(form)
		w.endLine()
		w.text(strings.ReplaceAll(f.Help, "\n", " "))
	}
}

// commands writes a line for each command below this one, sorted.
func commands(w *roff, node *kong.Node) {
	lines := make(map[string]string)
	for _, c := range visible(node.Children) {
		line := *c
		line.Flags, line.Children = nil, nil
		lines[line.Summary()] = c.Help
	}
	for i, form := range slices.Sorted(maps.Keys(lines)) {
		if i == 0 {
			w.heading("Commands")
		}
		w.tagged(form)
		w.request("RS", 4)
		w.text(strings.ReplaceAll(lines[form], "\n", " "))
		w.request("RE")
	}
}

func topicPage(app string, t Topic, build Build) Page {
	name := app + "-" + t.Name
	w := newRoff(7, name, build)
	w.name(name, short(t.Title))
	w.section("Description", t.Text)
	w.section("See also", app+"(1)")
	return Page{name, 7, w.String()}
}

func visible(nodes []*kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kong.Node) bool { return n.Hidden })
}

// pageName joins the names of a command: gorxe-pcap-check.
func pageName(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return pageName(n.Parent) + "-" + n.Name
}

// short makes the second half of a page's name line from a sentence.
func short(sentence string) string {
	s := strings.TrimSuffix(strings.TrimSpace(sentence), ".")
	first, size := utf8.DecodeRuneInString(s)
	if next, _ := utf8.DecodeRuneInString(s[size:]); unicode.IsUpper(next) {
		return s // an abbreviation
	}
	return string(unicode.ToLower(first)) + s[size:]
}

// parts are what the help of a command says, in the sections of a manual page.
type parts struct{ description, exit, examples string }

func split(detail string) (p parts) {
	detail, p.examples, _ = strings.Cut(detail, "Examples:\n")
	var rest []string
	for _, paragraph := range strings.Split(strings.TrimSpace(detail), "\n\n") {
		if strings.HasPrefix(paragraph, "The exit code") {
			p.exit = paragraph
			continue
		}
		rest = append(rest, paragraph)
	}
	p.description = strings.Join(rest, "\n\n")
	return p
}

func arguments(n *kong.Node) string {
	var list []string
	for _, a := range n.Positional {
		list = append(list, a.Summary()+": "+a.Help)
	}
	return strings.Join(list, "\n\n")
}

// seeAlso names the other pages: those of the commands beside and below this one. The
// page of the program names the topics too.
func seeAlso(root, node *kong.Node) string {
	var list []string
	if node != root {
		list = append(list, pageName(root)+"(1)")
	}
	near := node
	if len(visible(node.Children)) == 0 {
		near = node.Parent
	}
	for _, c := range visible(near.Children) {
		if c != node {
			list = append(list, pageName(c)+"(1)")
		}
	}
	for _, t := range Topics() {
		list = append(list, root.Name+"-"+t.Name+"(7)")
	}
	return strings.Join(list, ", ")
}
