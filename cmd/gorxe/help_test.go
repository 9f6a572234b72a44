package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/cmd/internal/manual"
	"github.com/gorxe/gorxe/internal/provider/profile"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/testenv"
)

// TestManual: man-db formats each page without a warning, and finds its name and its
// description.
func TestManual(t *testing.T) {
	if _, err := exec.LookPath("lexgrog"); err != nil {
		testenv.Missing(t, "man-db is not installed: make setup")
	}
	dir := t.TempDir()
	if code, stdout, stderr := gorxe(t, "manual", dir); code != exitOK || stdout+stderr != "" {
		t.Fatalf("exit code %d, %q, %q", code, stdout, stderr)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "man?", "*"))
	if err != nil || len(pages) < 17 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, name := range pages {
		cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", name)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "MANWIDTH=80")
		var warnings strings.Builder
		cmd.Stderr = &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(name), err, warnings.String())
		}
		page := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".1"), ".7")
		if out, err := exec.Command("lexgrog", name).CombinedOutput(); err != nil || !strings.Contains(string(out), `: "`+page+" - ") {
			t.Errorf("lexgrog: %v, %s", err, out)
		}
	}
	// The lint can fail.
	broken := filepath.Join(dir, "broken.1")
	if err := os.WriteFile(broken, []byte(".TH X 1\n.SH NAME\nx \\- y\n.nosuchmacro\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", broken).CombinedOutput()
	if !strings.Contains(string(out), "nosuchmacro") {
		t.Error("man accepts a macro that does not exist")
	}
}

// TestDocumentsNamed: a document that help or a finding names is on the machine of a user: it has
// an address. The package has no copy of docs.
func TestDocumentsNamed(t *testing.T) {
	document := regexp.MustCompile(`\S*\b(docs/[a-z-]+(\.md)?|README\.md|examples/[a-z]+)\b`)
	texts := map[string]string{}
	for _, command := range leaves(parsedGrammar(t).Node) {
		_, texts[strings.Join(path(command), " ")], _ = gorxe(t, append(path(command), "--help")...)
	}
	for _, topic := range manual.Topics() {
		texts["help "+topic.Name] = topic.Text
	}
	for _, name := range []string{"libraries.go", "kernel.go", "limits.go", "network.go"} {
		text, err := os.ReadFile("../../cmd/internal/doctor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	named := 0
	for name, text := range texts {
		for _, d := range document.FindAllString(text, -1) {
			named++
			if !strings.Contains(d, "https://github.com/gorxe/gorxe/blob/main/") {
				t.Errorf("%s names %s, which the packages do not install", name, d)
				continue
			}
			_, file, _ := strings.Cut(d, "/blob/main/")
			if _, err := os.Stat("../../" + file); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if named < 4 {
		t.Errorf("only %d documents are named", named)
	}
}

// TestStandsAlone: the description of a flag does not lean on the one before: manual pages sort
// them.
func TestStandsAlone(t *testing.T) {
	for _, command := range leaves(parsedGrammar(t).Node) {
		for _, flag := range command.Flags {
			if help := strings.ToLower(flag.Help); strings.HasPrefix(help, "the same") || strings.Contains(help, " above") || strings.HasPrefix(help, "likewise") {
				t.Errorf("%s --%s: %s", strings.Join(path(command), " "), flag.Name, flag.Help)
			}
		}
	}
}

// TestHelpExamples: the help of each command has examples, and the grammar has what they say.
func TestHelpExamples(t *testing.T) {
	app := parsedGrammar(t)
	for _, command := range leaves(app.Node) {
		name := strings.Join(path(command), " ")
		if command.Hidden {
			continue
		}
		_, text, _ := gorxe(t, append(path(command), "--help")...)
		_, examples, _ := strings.Cut(text, "Examples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		checked := 0
		for line := range strings.Lines(examples) {
			line, _, _ = strings.Cut(line, " || ")
			line, _, _ = strings.Cut(line, " >")
			for _, c := range documentedCommands("    " + line) {
				checked++
				if bad := misfit(app, c); bad != "" {
					t.Errorf("%s --help: gorxe %s: there is no %s", name, c, bad)
				}
			}
		}
		if checked == 0 {
			t.Errorf("%s --help has no examples:\n%s", name, text)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, topic := range manual.Topics() {
		if code, stdout, _ := gorxe(t, "help", topic.Name); code != exitOK || !strings.HasPrefix(stdout, topic.Title) {
			t.Errorf("help %s: exit code %d, %.40q", topic.Name, code, stdout)
		}
	}
	for _, command := range []string{"", "run", "pcap", "pcap check"} {
		words := strings.Fields(command)
		_, want, _ := gorxe(t, append(words, "--help")...)
		if code, stdout, _ := gorxe(t, append([]string{"help"}, words...)...); code != exitOK || stdout != want {
			t.Errorf("help %s: exit code %d, not what --help prints:\n%s", command, code, stdout)
		}
	}
	for _, wrong := range [][]string{{"help", "walk"}, {"help", "pcap", "chek"}, {"help", "manual"}} {
		if code, _, stderr := gorxe(t, wrong...); code != exitUsage || !strings.Contains(stderr, "no command or topic") {
			t.Errorf("%v: exit code %d, %s", wrong, code, stderr)
		}
	}
}

// TestTopicCommands: the commands in the topics exist.
func TestTopicCommands(t *testing.T) {
	app := parsedGrammar(t)
	checked := 0
	for _, topic := range manual.Topics() {
		for line := range strings.Lines(topic.Text) {
			if !strings.HasPrefix(line, "  ") {
				continue
			}
			for _, command := range documentedCommands("    " + line) {
				checked++
				command, _, _ = strings.Cut(command, "  ") // what follows explains it
				if bad := misfit(app, command); bad != "" {
					t.Errorf("help %s: gorxe %s: there is no %s", topic.Name, command, bad)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d commands were found", checked)
	}
}

// TestPredictors: each predictor that the grammar names exists.
func TestPredictors(t *testing.T) {
	complete := func(line string) {
		t.Helper()
		t.Setenv("COMP_LINE", line)
		t.Setenv("COMP_POINT", "")
		if code, _, stderr := gorxe(t); code != exitOK || stderr != "" {
			t.Errorf("%q: exit code %d, %s", line, code, stderr)
		}
	}
	for _, command := range leaves(parsedGrammar(t).Node) {
		line := "gorxe " + strings.Join(path(command), " ")
		for _, flag := range command.Flags {
			complete(line + " --" + flag.Name + " ")
		}
		for i := range command.Positional {
			complete(line + strings.Repeat(" x", i) + " ")
		}
	}
}

// TestCompletion: lines have the candidates of their place.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"gorxe st":                     "status\n",
		"gorxe pcap check --ignore ic": "icrc\n",
		"gorxe help door":              "doorbells\n",
		"gorxe daemon --log-level w":   "warn\n",
		"gorxe run --doorbells d":      "direct\n",
		"gorxe completion f":           "fish\n",
		"gorxe man":                    "",
	} {
		t.Setenv("COMP_LINE", line)
		t.Setenv("COMP_POINT", "")
		if code, stdout, stderr := gorxe(t); code != exitOK || stdout != want || stderr != "" {
			t.Errorf("%q: exit code %d, %q, want %q; %s", line, code, stdout, want, stderr)
		}
	}
	t.Setenv("COMP_LINE", "")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		for _, args := range [][]string{{"completion", "-c", shell}, {"completion", shell}} {
			code, stdout, stderr := gorxe(t, args...)
			if code != exitOK || !strings.Contains(stdout, "complete ") || strings.Contains(stdout, "Execute") || stderr != "" {
				t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
			}
		}
	}
}

// TestTopicLists: the topic about adapters has each with its speed.
func TestTopicLists(t *testing.T) {
	_, text, _ := gorxe(t, "help", "connectx")
	for _, name := range profile.Names() {
		spec := proto.Spec{Name: "mlx5_0", Like: proto.Like(name)}
		p, _ := spec.ConnectX()
		if row := regexp.MustCompile(`(?m)^  ` + name + ` +` + proto.Speed(p.Mbps).String() + `\b`); !row.MatchString(text) {
			t.Errorf("there is no row %s", row)
		}
	}
}
