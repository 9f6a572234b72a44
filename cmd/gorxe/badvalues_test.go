package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/gorxe/gorxe/internal/test/must"
)

// goisms are what Go's libraries say, and users of a command line do not understand.
var goisms = regexp.MustCompile(`strconv\.|Parse[A-Z]|netip|%!|invalid syntax|unable to parse IP|value out of range|\b(rocev2|conformance|proto|fault|time|net|kong|keeper|pair|yaml|json): |unmarshal|\*[a-z]+\.|goroutine|nil pointer`)

// badValues are wrong for flags of some kind.
var badValues = []string{"nope", "-1", "99999999999999999999999", "1.5x", "1e99", "\x1b[2J", "a=b=c", ",", " ", "0x", "::1%%", "1h1"}

// leaves are the commands without commands below them.
func leaves(n *kong.Node) (list []*kong.Node) {
	for _, c := range n.Children {
		list = append(list, leaves(c)...)
	}
	if len(list) == 0 {
		list = append(list, n)
	}
	return list
}

// path is the words of a command.
func path(n *kong.Node) (words []string) {
	for ; n.Parent != nil; n = n.Parent {
		words = append([]string{n.Name}, words...)
	}
	return words
}

// TestBadValues: a flag with a value that it does not take is refused by its name, in words that
// are not Go's, and with the command whose help to read.
func TestBadValues(t *testing.T) {
	refused := 0
	for _, command := range leaves(parsedGrammar(t).Node) {
		for _, flag := range command.Flags {
			if flag.IsBool() {
				continue
			}
			// A parser remembers which flags it has seen, so each flag gets one.
			var out bytes.Buffer
			g := newGrammar(func() (context.Context, error) { return t.Context(), nil }, streams{out: &out, err: &out})
			for _, value := range badValues {
				args := append(path(command), "--"+flag.Name+"="+value)
				for _, p := range command.Positional {
					if p.Required {
						args = append(args, "1")
					}
				}
				out.Reset()
				if _, code := g.parse(args); code == exitOK {
					continue // a text, which the command looks at
				}
				message := out.String()
				refused++
				first, rest, _ := strings.Cut(message, "\n")
				if goisms.MatchString(message) || !strings.Contains(first, "--"+flag.Name) {
					t.Errorf("%q: %s", args, message)
				}
				if want := "Run 'gorxe " + strings.Join(path(command), " ") + " --help' for usage.\n"; rest != want {
					t.Errorf("%q: the hint is %q, want %q", args, rest, want)
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d values were refused", refused)
	}
}

// TestBadArguments: what commands themselves refuse is named, in words that are not Go's.
func TestBadArguments(t *testing.T) {
	const capture = "../../testdata/pcaps/rping.pcap"
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "--device", "rxe0=::1%%", "true"}, `--device`},
		{[]string{"run", "--device", "rxe0=300.1.1.1", "true"}, `300.1.1.1`},
		{[]string{"run", "--device", "rxe0=lo,mtu=x", "true"}, `rxe0=lo,mtu=x`},
		{[]string{"run", "--device", "rxe0=lo,speed=x", "true"}, `speed`},
		{[]string{"run", "--devices", "-3", "true"}, `--devices`},
		{[]string{"run", "--devices", "99999999999999999999", "true"}, `--devices`},
		{[]string{"run", "--devices", "1000", "true"}, `--devices`},
		{[]string{"run", "--fault", "packet drop,p=x", "true"}, `p=x`},
		{[]string{"run", "--fault", "packet drop,first=99999999999999999999", "true"}, `first`},
		{[]string{"run", "--fault", "packet drop,qp=0xzz", "true"}, `qp`},
		{[]string{"run", "--fault", "packet delay,time=3", "true"}, `time`},
		{[]string{"run", "--faults", "/no/such/file", "true"}, `/no/such/file`},
		{[]string{"run", "--faults", "main.go", "true"}, `main.go`},
		{[]string{"run", "--label", "a b\n", "true"}, `label`},
		{[]string{"pair", "--devices", "-3", "a", "--", "b"}, `--devices`},
		{[]string{"pair", "--nope", "a", "--", "b"}, `unknown flag --nope`},
		{[]string{"pair", "--hosts", "--chaos", "7", "a", "--", "b"}, `GORXE_CHAOS`},
		{[]string{"daemon", "--device", "rxe0=::1%%"}, `--device`},
		{[]string{"daemon", "--socket", "/no/such/dir/s"}, `/no/such/dir/s`},
		{[]string{"daemon", "--metrics", "nope", "--socket", "/no/such/dir/s"}, `--metrics`},
		{[]string{"daemon", "--metrics", "127.0.0.1:99999", "--socket", "/no/such/dir/s"}, `--metrics`},
		{[]string{"daemon", "--metrics", ":::::1", "--socket", "/no/such/dir/s"}, `--metrics`},
		{[]string{"daemon", "--socket-group", "no-such-group", "--socket", "/no/such/dir/s"}, ``},
		{[]string{"metrics", "nope"}, `HOST:PORT is needed`},
		{[]string{"metrics", "127.0.0.1:0", "--directory", "/no/such/dir"}, `--directory`},
		{[]string{"nri", "--binary", "/no/such/gorxe"}, `--binary`},
		{[]string{"nri", "--binary", "/etc"}, `--binary: /etc is no program`},
		{[]string{"nri", "--socket", "/no/such/socket"}, `no engine with NRI: /no/such/socket does not exist`},
		{[]string{"status", "--socket", "/no/such/socket"}, `/no/such/socket`},
		{[]string{"status", "--socket", strings.Repeat("x", 200)}, `--socket`},
		{[]string{"fault", "--socket", "/no/such/socket"}, ``},
		{[]string{"top", "--socket", "/no/such/socket"}, `/no/such/socket`},
		{[]string{"explain", "--socket", "/no/such/socket"}, `/no/such/socket`},
		{[]string{"devices", "--as-seen", "--devices", "-3"}, `--devices`},
		{[]string{"demo", "--no-pcap", "--addresses", "192.0.2.1,192.0.2.2"}, `192.0.2.1`},
		{[]string{"demo", "--pcap", "/no/such/dir/x", "--addresses", "127.0.0.1,127.0.0.2"}, `/no/such/dir/x`},
		{[]string{"pcap", "check", "--ignore", "nope", capture}, `--ignore`},
		{[]string{"pcap", "check", "--junit", "/no/such/dir/x", capture}, `/no/such/dir/x`},
		{[]string{"pcap", "show", "--qp", "nope", capture}, `--qp`},
		{[]string{"pcap", "show", "--qp", "0x1000000", capture}, `--qp`},
		{[]string{"pcap", "show", "--html", "/no/such/dir/x", capture}, `/no/such/dir/x`},
		{[]string{"help", "nope"}, `"nope"`},
		{[]string{"explain", "nope"}, `"nope"`},
		{[]string{"manual", "/proc/nope"}, `/proc/nope`},
	} {
		// a case that starts a program is wrong
		ctx, cancel := context.WithTimeout(t.Context(), must.Limit)
		cmd := exec.CommandContext(ctx, self(t).Path, c.args...)
		cmd.Env = append(os.Environ(), envMain+"=1", "GORXE_SOCKET="+filepath.Join(t.TempDir(), "s"))
		said, err := cmd.CombinedOutput()
		cancel()
		if err == nil || goisms.Match(said) || !strings.Contains(string(said), c.says) {
			t.Errorf("%q: %v, without %q or with words of Go: %s", c.args, err, c.says, said)
		}
	}
	if !slices.ContainsFunc([]string{`ParseAddr("nope"): unable to parse IP`, `strconv.ParseUint: parsing "x": invalid syntax`}, goisms.MatchString) {
		t.Error("words of Go are not recognized")
	}
}
