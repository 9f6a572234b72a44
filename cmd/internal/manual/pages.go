package manual

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/mango"
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

// commandPage makes the page of one command. mango-kong would put all commands on one
// page, with their flags, so it gets one node, and of the nodes below only a line each.
func commandPage(root, node *kong.Node, build Build) Page {
	name := pageName(node)
	help, detail := node.Help, node.Detail
	if node == root {
		help, detail, _ = strings.Cut(help, "\n")
	}
	parts := split(strings.TrimSpace(detail))
	one := *node
	one.Name, one.Help, one.Detail = name, short(help), parts.description
	if one.Detail == "" {
		one.Detail = help
	}
	one.Flags = slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Hidden })
	one.Children = nil
	for _, c := range visible(node.Children) {
		line := *c
		line.Detail, line.Flags, line.Children = "", nil, nil
		one.Children = append(one.Children, &line)
	}
	man := mangokong.NewManPage(1, &kong.Application{Node: &one})
	for _, s := range []mango.Section{
		{Name: "Arguments", Text: arguments(node)},
		{Name: "Exit status", Text: cmp.Or(parts.exit, usualExit)},
		{Name: "Environment", Text: facts(variables, node)},
		{Name: "Files", Text: facts(paths, node)},
		{Name: "Examples", Text: parts.examples},
		{Name: "See also", Text: seeAlso(root, node)},
	} {
		if s.Text != "" {
			man = man.WithSection(s.Name, s.Text)
		}
	}
	w := &roff{date: build.Date, version: build.Version, synopsis: root.Name + " " + node.Summary()}
	if node == root {
		w.synopsis = node.Name + " <command> [flags]"
	}
	return Page{name, 1, man.Build(w)}
}

func topicPage(app string, t Topic, build Build) Page {
	name := app + "-" + t.Name
	man := mango.NewManPage(7, name, short(t.Title)).WithLongDescription(t.Text).
		WithSection("See also", app+"(1)")
	return Page{name, 7, man.Build(&roff{date: build.Date, version: build.Version})}
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
