package ociruntime

import (
	"slices"
	"strings"
	"testing"
)

// The command lines are those of podman, containerd, dockerd and of people.
func TestParse(t *testing.T) {
	for line, want := range map[string]invocation{
		"": {bundle: "."},
		"--root /run/x --log=/l create --bundle /b --pid-file /p id": {log: "/l", command: "create", bundle: "/b",
			args: strings.Fields("--root /run/x --log=/l create --bundle /b --pid-file /p id")},
		"--systemd-cgroup --log /l --log-format json create --bundle=/b id": {log: "/l", command: "create", bundle: "/b",
			args: strings.Fields("--systemd-cgroup --log /l --log-format json create --bundle=/b id")},
		"--gorxe-socket=/s --gorxe-runtime crun run id": {socket: "/s", runtime: "crun", command: "run", bundle: ".", args: []string{"run", "id"}},
		"--root create state id":                        {command: "state", bundle: ".", args: strings.Fields("--root create state id")},
		"exec --process /p.json --detach id":            {command: "exec", bundle: ".", process: "/p.json", id: "id", args: strings.Fields("exec --process /p.json --detach id")},
		"exec -t -u 7 id sh -c x":                       {command: "exec", bundle: ".", words: 5, id: "id", args: strings.Fields("exec -t -u 7 id sh -c x")},
		"exec id":                                       {command: "exec", bundle: ".", id: "id", args: strings.Fields("exec id")},
		"kill id 9":                                     {command: "kill", bundle: ".", args: strings.Fields("kill id 9")},
		"--version":                                     {bundle: ".", args: []string{"--version"}},
	} {
		got, err := parse(strings.Fields(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if !slices.Equal(got.args, want.args) {
			t.Errorf("%s: passed on %q", line, got.args)
		}
		got.args, want.args = nil, nil
		if !equal(got, &want) {
			t.Errorf("%s: %+v, want %+v", line, *got, want)
		}
	}
	if _, err := parse([]string{"--gorxe-socket"}); err == nil {
		t.Error("a flag without its value")
	}
}

func equal(a, b *invocation) bool {
	return a.socket == b.socket && a.runtime == b.runtime && a.log == b.log && a.command == b.command &&
		a.bundle == b.bundle && a.process == b.process && a.id == b.id && a.words == b.words
}

// No command line makes parse fail in another way than with an error.
func FuzzParse(f *testing.F) {
	f.Add("--root /r create --bundle /b id")
	f.Add("exec --process")
	f.Fuzz(func(t *testing.T, line string) {
		inv, err := parse(strings.Split(line, " "))
		if err == nil && inv.words > len(inv.args) {
			t.Errorf("%d words of %q", inv.words, inv.args)
		}
	})
}
