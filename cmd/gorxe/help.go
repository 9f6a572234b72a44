package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/cmd/internal/completion"
	"github.com/gorxe/gorxe/cmd/internal/manual"
	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/sys/buildinfo"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

type helpCmd struct {
	Subject []string `arg:"" optional:"" predictor:"subject" help:"A topic or a command."`
}

// Help is the part of `gorxe help --help` above the flags.
func (helpCmd) Help() string {
	var b strings.Builder
	b.WriteString("Shows the help of a command, or a topic. The topics are also manual pages in section 7.\n\nTopics:\n")
	for _, t := range manual.Topics() {
		fmt.Fprintf(&b, "  %-11s %s\n", t.Name, t.Title)
	}
	b.WriteString("\nExamples:\n  gorxe help doorbells\n  gorxe help pcap check")
	return b.String()
}

// Run prints the topic, or else the help of the command.
func (c helpCmd) Run(newContext contexts, app *kong.Kong, std streams) error {
	if len(c.Subject) == 1 {
		if t := manual.FindTopic(c.Subject[0]); t != nil {
			return t.Write(std.out)
		}
	}
	node := app.Model.Node
	for _, name := range c.Subject {
		if node = child(node, name); node == nil {
			return usageError{fmt.Errorf("there is no command or topic %q: see gorxe help --help for the topics, gorxe --help for the commands", strings.Join(c.Subject, " "))}
		}
	}
	run(newContext, append(c.Subject, "--help"), std)
	return nil
}

func child(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name && !c.Hidden {
			return c
		}
	}
	return nil
}

// manualCmd writes the manual pages, for packages of distributions.
type manualCmd struct {
	Dir string `arg:"" help:"Directory for man1 and man7, as /usr/share/man."`
}

// Run writes the manual pages.
func (c manualCmd) Run(app *kong.Kong) error {
	build := buildinfo.Get()
	for _, page := range manual.Pages(app.Model, manual.Build{Version: build.Version, Date: build.Date}) {
		name := filepath.Join(c.Dir, page.File())
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(page.Text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// completionWords are the candidates that only this program knows. The tag `predictor` of
// a flag or an argument has the key.
func completionWords(app *kong.Application) map[string][]string {
	var subjects, rules []string
	for _, t := range manual.Topics() {
		subjects = append(subjects, t.Name)
	}
	for _, c := range app.Children {
		if !c.Hidden {
			subjects = append(subjects, c.Name)
		}
	}
	for _, r := range conformance.Rules() {
		rules = append(rules, r.Name)
	}
	return map[string][]string{
		"subject": subjects, "rule": rules, "word": explainable(),
		"level":     {"debug", "info", "warn", "error"},
		"fault":     fault.Examples(),
		"seed":      {"random"},
		"doorbells": {"trapped", "direct", "auto"},
		"ecn":       {"on", "off"},
		"like":      profile.Names(),
	}
}

// complete answers a shell that completes a command line.
func complete(parser *kong.Kong, std streams) int {
	if err := completion.Complete(parser, completionWords(parser.Model)); err != nil {
		complain(std, err)
		return exitFailed
	}
	return exitOK
}
