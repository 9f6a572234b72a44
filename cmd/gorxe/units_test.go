package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// setting is what a unit of dist says, once.
func setting(t *testing.T, unit, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../dist/" + unit)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d lines of %s=", unit, len(found), name)
	}
	return found[0][1]
}

// TestUnits: the units of dist and this program mean the same.
func TestUnits(t *testing.T) {
	command := strings.Fields(setting(t, "gorxe.service", "ExecStart"))
	if code, _, stderr := gorxe(t, append(slices.Clone(command[1:]), "--help")...); code != exitOK || command[1] != "daemon" {
		t.Errorf("%q: exit code %d, %s", command, code, stderr)
	}
	if kind := setting(t, "gorxe.service", "Type"); kind != "notify" {
		t.Errorf("Type=%s: the daemon says when it is ready", kind)
	}
	t.Setenv(proto.EnvSocket, "")
	paths, err := proto.Sockets("")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := setting(t, "gorxe.socket", "ListenSequentialPacket"), paths[len(paths)-1]; got != want {
		t.Errorf("the socket is %s; clients look at %s", got, want)
	}
}
