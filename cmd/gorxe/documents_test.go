package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	codeInText = regexp.MustCompile("`[^`]+`")
	commandIn  = regexp.MustCompile(`(?:^|[\s` + "`" + `/;&])gorxe ([a-z-][^#|;&,` + "`" + `]*)`)
)

// documentedCommands are the command lines of gorxe in the code of a document: what stands
// behind the name.
func documentedCommands(text string) []string {
	var code []string
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "    "):
			code = append(code, line)
		default:
			code = append(code, codeInText.FindAllString(line, -1)...)
		}
	}
	var commands []string
	for _, c := range code {
		c, _, _ = strings.Cut(c, " #")
		for _, m := range commandIn.FindAllStringSubmatch(c, -1) {
			commands = append(commands, strings.TrimSpace(m[1]))
		}
	}
	return commands
}

// misfit returns what in a documented command line the grammar does not have, or nothing.
// What belongs to the program behind `gorxe run` is not looked at.
func misfit(app *kong.Application, command string) string {
	node := app.Node
	words := strings.Fields(command)
	for i := 0; i < len(words); i++ {
		w := words[i]
		if name, isFlag := strings.CutPrefix(w, "--"); isFlag {
			if name == "" {
				return "" // the program follows
			}
			name, _, valued := strings.Cut(name, "=")
			flag := findFlag(node, name)
			if flag == nil {
				return w
			}
			if !valued && !flag.IsBool() {
				i++
			}
			continue
		}
		if strings.HasPrefix(w, "-") && len(w) == 2 {
			continue // a short flag: TestCommandLine has those
		}
		child := findChild(node, w)
		switch {
		case child != nil:
			node = child
		case len(node.Children) > 0:
			return w
		case node.Name == "run":
			return ""
		}
	}
	return ""
}

func findChild(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func findFlag(n *kong.Node, name string) *kong.Flag {
	for ; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if f.Name == name || f.Tag.Negatable != "" && "no-"+f.Name == name {
				return f
			}
		}
	}
	return nil
}

func parsedGrammar(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("gorxe"))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// TestDocumentedCommands: the commands and flags of gorxe that the documents show exist.
func TestDocumentedCommands(t *testing.T) {
	app := parsedGrammar(t)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range append(documents, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range documentedCommands(string(text)) {
			checked++
			if bad := misfit(app, command); bad != "" {
				t.Errorf("%s: gorxe %s: there is no %s", filepath.Base(name), command, bad)
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d commands were found", checked)
	}
	for _, wrong := range []string{"walk", "run --devcie x", "pcap chek x", "status --watch --quick"} {
		if misfit(app, wrong) == "" {
			t.Errorf("gorxe %s: nothing is found wrong", wrong)
		}
	}
}
