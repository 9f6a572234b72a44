package manual

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// grammar has what is hard to write in roff.
type grammar struct {
	Run struct {
		Rate    string   `short:"r" placeholder:"N%" help:"100% of what's possible, or --rate=50%."`
		Secret  bool     `hidden:"" help:"not shown"`
		Program []string `arg:"" optional:"" help:"The program."`
	} `cmd:"" help:"Run a C:\\program." `
	Tool struct {
		Sub struct{} `cmd:"" help:"RDMA tools."`
	} `cmd:"" help:"A group."`
	Inner struct{} `cmd:"" hidden:"" help:"Not shown."`
}

func (grammar) pages(t *testing.T) map[string]string {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("prog"), kong.Description("A program.\n\nExamples:\n  prog run"))
	if err != nil {
		t.Fatal(err)
	}
	run := parser.Model.Children[0]
	run.Detail = "One.\n.dot begins this line\n'quote this one\n\nThe exit code is 0.\n\nExamples:\n  prog run 'a  b' \\\n    -- c"
	texts := make(map[string]string)
	for _, p := range Pages(parser.Model, Build{Version: "v1.2", Date: time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)}) {
		texts[p.File()] = p.Text
	}
	return texts
}

func TestPages(t *testing.T) {
	pages := grammar{}.pages(t)
	for _, name := range []string{"man1/prog.1", "man1/prog-run.1", "man1/prog-tool.1", "man1/prog-tool-sub.1", "man7/prog-doorbells.7"} {
		if pages[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if pages["man1/prog-inner.1"] != "" || strings.Contains(pages["man1/prog.1"], "inner") {
		t.Error("a hidden command has a page, or is named")
	}
	run := pages["man1/prog-run.1"]
	for _, part := range []string{
		`.TH PROG\-RUN 1 "2026-01-02" "gorxe v1.2" "gorxe manual"`,
		"\n.SH NAME\nprog\\-run \\- run a C:\\eprogram\n",
		"\n.SH SYNOPSIS\nprog run [<program> ...] [flags]\n",
		"\nOne.\n\\&.dot begins this line\n\\&\\(aqquote this one\n",
		"\n.TP\n\\fB\\-r, \\-\\-rate=N%\\fP\n100% of what\\(aqs possible, or \\-\\-rate=50%.\n",
		"\n.SH EXIT STATUS\nThe exit code is 0.\n",
		"\n.SH EXAMPLES\n.RS 2\n.nf\nprog run \\(aqa  b\\(aq \\e\n  \\-\\- c\n.fi\n.RE\n",
		"\n.SH SEE ALSO\nprog(1), prog\\-tool(1), prog\\-captures(7)",
	} {
		if !strings.Contains(run, part) {
			t.Errorf("the page of run lacks\n%s", part)
		}
	}
	if t.Failed() {
		t.Logf("%s", run)
	}
	if strings.Contains(run, "ecret") || strings.Contains(run, "options...") {
		t.Error("the page of run has a hidden flag, or a synopsis without its arguments")
	}
	if sub := pages["man1/prog-tool-sub.1"]; !strings.Contains(sub, `prog\-tool\-sub \- RDMA tools`) {
		t.Errorf("an abbreviation changed:\n%s", sub)
	}
	if strings.Contains(pages["man1/prog.1"], "rate") {
		t.Error("the page of the program has flags of its commands")
	}
}

// TestEnvironment: the page of a command with a socket has the variables and the files that matter
// to it, and each page says what the exit code means.
func TestEnvironment(t *testing.T) {
	parser, err := kong.New(&struct {
		Status struct {
			Socket string `placeholder:"PATH"`
		} `cmd:"" help:"Show."`
		Version struct{} `cmd:"" help:"Print."`
	}{}, kong.Name("prog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Pages(parser.Model, Build{}) {
		text := strings.ReplaceAll(p.Text, `\-`, "-")
		if p.Section == 1 && !strings.Contains(text, "\n.SH EXIT STATUS\n") {
			t.Errorf("%s has no exit status", p.Name)
		}
		socket := p.Name == "prog-status"
		for _, part := range []string{"\n.SH ENVIRONMENT\nGORXE_SOCKET: ", "\n.SH FILES\n/run/gorxe.sock: "} {
			if strings.Contains(text, part) != socket {
				t.Errorf("%s: %q: %v, want %v", p.Name, part, !socket, socket)
			}
		}
	}
}

// TestNoDate: a build without a date does not claim one.
func TestNoDate(t *testing.T) {
	parser, err := kong.New(&grammar{}, kong.Name("prog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Pages(parser.Model, Build{Version: "(devel)"}) {
		if !strings.Contains(p.Text, ` "" "gorxe (devel)"`) {
			t.Errorf("%s begins %.60q", p.Name, p.Text)
		}
	}
}

func TestTopics(t *testing.T) {
	topics := Topics()
	for _, name := range []string{"devices", "faults", "chaos", "doorbells", "CI", "containers", "verdict"} {
		if FindTopic(name) == nil {
			t.Errorf("there is no topic %s", name)
		}
	}
	if FindTopic("nothing") != nil {
		t.Error("there is a topic of any name")
	}
	for _, topic := range topics {
		var b bytes.Buffer
		if err := topic.Write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(topic.Title, ".") || strings.Join(strings.Fields(b.String()), " ") != strings.Join(strings.Fields(topic.Title+" "+topic.Text), " ") {
			t.Errorf("%s lost words, or its title is not a sentence", topic.Name)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%s has a line of %d columns: %s", topic.Name, n, line)
			}
		}
	}
}
