package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// texts returns the lines of a picture, as a viewer shows them, and fails if it is not
// XML.
func texts(t *testing.T, picture []byte) []string {
	t.Helper()
	var lines []string
	var open *strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "text" {
				open = &strings.Builder{}
			}
		case xml.CharData:
			if open != nil {
				open.Write(token)
			}
		case xml.EndElement:
			if token.Name.Local == "text" {
				lines = append(lines, open.String())
				open = nil
			}
		}
	}
}

// TestPlay runs a session of each kind of step in a real shell.
func TestPlay(t *testing.T) {
	steps := parse("# comment\n$ echo one; echo two >&2\n! x=three\n$ echo hidden &\n! wait\n$ echo $x '<&>'\n")
	lines, err := play(exec.Command("bash", "--noprofile", "--norc"), steps)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range lines {
		prompt := ""
		if l.command {
			prompt = "$ "
		}
		got = append(got, prompt+l.text)
	}
	want := []string{"$ echo one; echo two >&2", "one", "two", "$ echo hidden &", "$ echo $x '<&>'", "three <&>"}
	if !slices.Equal(got, want) {
		t.Errorf("the terminal showed %q, want %q", got, want)
	}
}

// TestPlayEnds: a shell that ends is an error, not a short picture.
func TestPlayEnds(t *testing.T) {
	if _, err := play(exec.Command("bash", "--noprofile", "--norc"), parse("$ exit 3\n$ echo x\n")); err == nil {
		t.Error("no error")
	}
}

func TestRender(t *testing.T) {
	long := strings.Repeat("x", 2*columns)
	got := texts(t, render([]line{
		{text: "a <b> & c", command: true, wait: time.Second},
		{text: "  indented  "},
		{text: long},
	}))
	want := []string{"a machine without RDMA hardware", "$", "a <b> & c", "  indented", long[:columns-3] + "…"}
	if !slices.Equal(got, want) {
		t.Errorf("the picture has %q, want %q", got, want)
	}
}

func TestExpand(t *testing.T) {
	if got, want := expand("a\tb\t\tc"), "a       b               c"; got != want {
		t.Errorf("expand: %q, want %q", got, want)
	}
}

// TestPictureIsTheSession: docs/session.svg shows the commands of session.txt.
func TestPictureIsTheSession(t *testing.T) {
	picture, err := os.ReadFile("../../" + output)
	if err != nil {
		t.Fatal(err)
	}
	lines := texts(t, picture)
	for _, s := range parse(session) {
		if s.shown && !slices.Contains(lines, cut(s.command)) {
			t.Errorf("%s does not show %q: run make build && go run ./scripts/recording", output, s.command)
		}
	}
}
