package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/cmd/internal/labfile"
	"github.com/gorxe/gorxe/internal/service/keeper"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestLabHelp: the file that the help shows can be read.
func TestLabHelp(t *testing.T) {
	help := labCmd{}.Help()
	_, after, _ := strings.Cut(help, "\n\n  topology:")
	text, _, _ := strings.Cut("  topology:"+after, "\n\n")
	l, err := labfile.Parse([]byte(text))
	if err != nil || len(l.Hosts) != 3 {
		t.Errorf("%v in\n%s", err, text)
	}
}

// TestLabRefused: a wrong file or command line is told before anything is started.
func TestLabRefused(t *testing.T) {
	const links = "\n  links: [{endpoints: ['h[1-2]:eth1', leaf]}]\n"
	for _, c := range []struct {
		file string
		args []string
		says string
	}{
		{"topology:\n  nodes: {'h[1-10000]': {}}" + links, []string{"--", "true"}, "lab.yml:2:11: h[1-10000]: the range has 10000 names: a lab has 250 hosts and 4096 links at most"},
		{"topology:\n  nodes: {h1: {wait-for: [h2]}, h2: {wait-for: [h1]}, leaf: {kind: bridge}}" + links, []string{"--", "true"}, "each waits for the next, and no one begins"},
		{"topology:\n  nodes: {'h[1-2]': {}}" + links, []string{"--", "true"}, `the link ends at "leaf", and no node has this name`},
		{"topology:\n  nodes: {'h[1-2]': {}, leaf: {kind: bridge}}" + links, nil, "no host has a program"},
		{"topology:\n  nodes: {'h[1-2]': {}, leaf: {kind: bridge}}" + links, []string{"--on", "h3", "--", "true"}, "--on h3: the lab has no such host"},
		{"topology:\n  nodes: {'h[1-2]': {cmd: 'true'}, leaf: {kind: bridge}}" + links, []string{"--on", "h1"}, "--on chooses where a program runs: give one after --"},
		{"topology:\n  nodes: {'h[1-2]': {cmd: 'true'}, leaf: {kind: bridge}}" + links, []string{"--timeout", "0"}, "--timeout must be positive"},
	} {
		path := filepath.Join(t.TempDir(), "lab.yml")
		if err := os.WriteFile(path, []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := gorxe(t, append([]string{"lab", path}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit code %d, %q, want %q", c.args, code, stderr, c.says)
		}
	}
	if code, _, stderr := gorxe(t, "lab", "/no/such/file"); code != exitUsage || !strings.Contains(stderr, "/no/such/file") {
		t.Errorf("no file: exit code %d, %q", code, stderr)
	}
}

// TestCarried: the process inside the namespaces gets the text of the file, which may be a pipe.
func TestCarried(t *testing.T) {
	text := strings.Repeat("# a comment\n", 1<<14) // more than a pipe has room for
	f := must.Get[*os.File](t)(carry([]byte(text)))
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != text {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
}

// TestUnread: a lab ends when nobody reads what it writes.
func TestUnread(t *testing.T) {
	r, w, err := os.Pipe()
	must.OK(t, err)
	defer w.Close()
	if unread(w) {
		t.Error("a pipe that is read")
	}
	r.Close()
	if !unread(w) {
		t.Error("a pipe that nobody reads")
	}
	null := must.Get[*os.File](t)(os.OpenFile(os.DevNull, os.O_WRONLY, 0))
	defer null.Close()
	if unread(null) {
		t.Error("a file")
	}
}

// TestEnding: a closed terminal ends a command as Ctrl-C does, unless SIGHUP was ignored before.
func TestEnding(t *testing.T) {
	// The tests, too, may run under nohup. Notify ends that SIGHUP is ignored.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	signal.Stop(hangup)
	ctx := must.Get[context.Context](t)(untilSignal())
	must.OK(t, unix.Kill(os.Getpid(), unix.SIGHUP))
	<-ctx.Done()
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP)
	ctx = must.Get[context.Context](t)(untilSignal())
	if !signal.Ignored(unix.SIGHUP) || slices.Contains(ending(), os.Signal(unix.SIGHUP)) {
		t.Error("a command under nohup takes SIGHUP")
	}
	must.OK(t, unix.Kill(os.Getpid(), unix.SIGTERM))
	<-ctx.Done()
}

// TestLabCapture: a capture that cannot be written is told before the programs run, and one that
// the disk does not take is an error at the end.
func TestLabCapture(t *testing.T) {
	c, l := labCmd{}, &labfile.Lab{}
	c.PCAP = t.TempDir()
	err := c.run(t.Context(), l, streams{out: io.Discard, err: io.Discard})
	var exit *keeper.ExitError
	if !errors.As(err, &exit) || exit.Code != keeper.ExitFailed || !strings.Contains(err.Error(), "--pcap: open "+c.PCAP+": is a directory") {
		t.Errorf("a directory: %v", err)
	}
	for path, well := range map[string]bool{"": true, filepath.Join(t.TempDir(), "x"): true, "/dev/full": false} {
		c.PCAP = path
		if err := c.writePCAP(l, nil); (err == nil) != well || err != nil && !strings.HasPrefix(err.Error(), "--pcap: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
