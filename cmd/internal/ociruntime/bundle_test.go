package ociruntime

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const bundle = `{
	"ociVersion": "1.0.2", "hostname": "h",
	"process": {"terminal": true, "user": {"uid": 7}, "args": ["sleep", "9"], "cwd": "/w",
		"env": ["PATH=/bin", "GORXE_SOCKET=/etc/shadow", "GORXE_DEVICES=rxe0=lo rxe1=eth0"],
		"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 18446744073709551615}]},
	"mounts": [{"destination": "/proc/", "type": "proc", "source": "proc"}],
	"hooks": {"createRuntime": [{"path": "/bin/true"}], "poststop": []},
	"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read", "seccomp", "memfd_create", "pidfd_open"], "action": "SCMP_ACT_ALLOW"}]}}
}`

func parseSpec(t testing.TB, text string) spec {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	s, err := readSpec(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain is s as JSON reads it.
func plain(t *testing.T, s spec) map[string]any {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return parseSpec(t, string(text))
}

func TestContainer(t *testing.T) {
	for name, c := range map[string]struct {
		host  host
		args  string
		mount string
		hook  string
	}{
		"devices of its own": {host{binary: "/usr/bin/gorxe", sockets: "/run"}, `["/.gorxe/gorxe", "run", "--container", "--device=rxe0=lo", "--device=rxe1=eth0", "--", "sleep", "9"]`,
			`{"destination": "/.gorxe/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "noexec", "mode=1777", "size=1m"]}`,
			`, {"path": "/usr/bin/gorxe", "args": ["gorxe-runtime", "_join", "/run", "rxe0=lo", "rxe1=eth0"], "timeout": 30}`},
		"the host's daemon": {host{binary: "/usr/bin/gorxe", socket: "/run/gorxe.sock"}, `["/.gorxe/gorxe", "run", "--", "sleep", "9"]`,
			`{"destination": "/.gorxe/run/socket", "type": "bind", "source": "/run/gorxe.sock", "options": ["bind", "nosuid", "nodev"]}`, ""},
	} {
		s := parseSpec(t, bundle)
		if err := s.container(c.host); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.NewReplacer(
			`["sleep", "9"]`, c.args,
			`{"path": "/bin/true"}`, `{"path": "/bin/true"}`+c.hook,
			`"GORXE_SOCKET=/etc/shadow", "GORXE_DEVICES=rxe0=lo rxe1=eth0"]`, `"GORXE_DEVICES=rxe0=lo rxe1=eth0", "GORXE_SOCKET=/.gorxe/run/socket"]`,
			`"source": "proc"}]`, `"source": "proc"}, {"destination": "/.gorxe/gorxe", "type": "bind", "source": "/usr/bin/gorxe", "options": ["bind", "ro", "nosuid", "nodev"]}, `+c.mount+`]`,
		).Replace(bundle)
		if got, want := plain(t, s), plain(t, parseSpec(t, want)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%v, want\n%v", name, got, want)
		}
		// An engine may create the same bundle again.
		before := plain(t, s)
		if err := parseSpec(t, asText(t, s)).container(c.host); err != nil {
			t.Error(err)
		}
		if again := parseSpec(t, asText(t, s)); again.container(c.host) != nil || !reflect.DeepEqual(plain(t, again), before) {
			t.Errorf("%s: a second create changed it to %v", name, again)
		}
	}
}

// A bundle's file that is too large, or is no file, is not read.
func TestUnreadSpecs(t *testing.T) {
	large := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(large, []byte("{}"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := readSpec(large); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(large, maxSpec+1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{large, os.DevNull, filepath.Dir(large)} {
		if _, err := readSpec(name); err == nil || !strings.Contains(err.Error(), "is not a regular file of at most 16 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func asText(t *testing.T, s spec) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What cannot work is refused with a sentence, and the bundle stays as it was.
func TestRefusedBundles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no process":        {`{"mounts": []}`, "process is missing"},
		"process a list":    {`{"process": [1]}`, "process is not an object"},
		"no args":           {`{"process": {"args": []}, "mounts": [{"destination": "/proc"}]}`, "process.args is empty"},
		"numbers for args":  {`{"process": {"args": [1]}, "mounts": [{"destination": "/proc"}]}`, "args has a member that is not a string"},
		"a string for env":  {`{"process": {"args": ["x"], "env": "A=1"}, "mounts": [{"destination": "/proc"}]}`, "env is not a list"},
		"no /proc":          {`{"process": {"args": ["x"]}, "mounts": []}`, "/proc is not mounted"},
		"a word for mounts": {`{"process": {"args": ["x"]}, "mounts": "none"}`, "mounts is not a list"},
		"seccomp forbidden": {strings.Replace(bundle, `"seccomp", `, "", 1), "forbids seccomp(2)"},
		"no pidfd_open":     {strings.Replace(bundle, `, "pidfd_open"]`, "]", 1), "forbids pidfd_open(2)"},
		"no memfd_create":   {`{"process": {"args": ["x"]}, "mounts": [{"destination": "/proc"}], "linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["memfd_create"], "action": "SCMP_ACT_ERRNO"}]}}}`, "forbids memfd_create(2)"},
		"seccomp with args": {strings.Replace(bundle, `"SCMP_ACT_ALLOW"}`, `"SCMP_ACT_ALLOW", "args": [{"index": 0}]}`, 1), "forbids seccomp(2)"},
		"seccomp notifies":  {strings.Replace(bundle, `"SCMP_ACT_ALLOW"}`, `"SCMP_ACT_NOTIFY"}`, 1), "the kernel allows one"},
		"seccomp a number":  {`{"process": {"args": ["x"]}, "mounts": [{"destination": "/proc"}], "linux": {"seccomp": 1}}`, "seccomp is not an object"},
		"hooks a number":    {`{"process": {"args": ["x"]}, "mounts": [{"destination": "/proc"}], "hooks": 1}`, "hooks is not an object"},
		"no list of hooks":  {`{"process": {"args": ["x"]}, "mounts": [{"destination": "/proc"}], "hooks": {"createRuntime": 1}}`, "hooks.createRuntime is not a list"},
		"many devices":      {`{"process": {"args": ["x"], "env": ["GORXE_DEVICES=` + strings.Repeat("rxe0=lo ", 600) + `"]}, "mounts": [{"destination": "/proc"}]}`, "GORXE_DEVICES has more than 4096 bytes"},
		"a mount below":     {`{"process": {"args": ["x"]}, "mounts": [{"destination": "/proc"}, {"destination": "/.gorxe/x"}]}`, "/.gorxe/x is mounted, and gorxe needs /.gorxe for itself"},
		"not an object":     {`[]`, "cannot unmarshal"},
		"null":              {`null`, "no JSON object"},
		"cut":               {`{"process": {`, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "config.json")
			if err := os.WriteFile(file, []byte(c.text), 0o640); err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(dir, "log")
			err := Main([]string{"--log", log, "create", "--bundle", dir, "id"})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config.json") {
				t.Errorf("%v, want %q", err, c.want)
			}
			var line struct{ Level, Msg string }
			text, _ := os.ReadFile(log)
			if json.Unmarshal(text, &line) != nil || line.Level != "error" || !strings.Contains(line.Msg, c.want) {
				t.Errorf("the log has %q", text)
			}
			if after, err := os.ReadFile(file); err != nil || string(after) != c.text {
				t.Errorf("the bundle is now %q (%v)", after, err)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
				t.Errorf("left behind: %v (%v)", list, err)
			}
		})
	}
}

// change is what Main does before it starts the runtime.
func change(t *testing.T, args ...string) *invocation {
	t.Helper()
	inv, err := parse(args)
	if err == nil {
		err = inv.change("")
	}
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestExec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process.json")
	if err := os.WriteFile(file, []byte(`{"args": ["id"], "env": ["GORXE_DEVICES=2"], "terminal": false}`), 0o604); err != nil {
		t.Fatal(err)
	}
	change(t, "exec", "--process", file, "id")
	got, err := os.ReadFile(file)
	want := `{"args":["/.gorxe/gorxe","run","--container","--devices=2","--","id"],"env":["GORXE_DEVICES=2","GORXE_SOCKET=/.gorxe/run/socket"],"terminal":false}`
	if info, statErr := os.Stat(file); err != nil || statErr != nil || string(got) != want || info.Mode().Perm() != 0o604 {
		t.Errorf("%s (%v, %v)", got, err, statErr)
	}
	inv := change(t, "exec", "-t", "id", "sh", "-c", "x")
	if got := strings.Join(inv.args, " "); got != "exec -t id /.gorxe/gorxe run --socket /.gorxe/run/socket --container -- sh -c x" {
		t.Error(got)
	}
	for _, other := range []string{"state", "kill", "delete", "start"} {
		if inv := change(t, other, "id"); len(inv.args) != 2 {
			t.Errorf("%s became %q", other, inv.args)
		}
	}
}

func TestHost(t *testing.T) {
	dir := t.TempDir()
	sock := filepath.Join(dir, "sock")
	ln, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for flag, want := range map[string]string{sock: "", filepath.Join(dir, "none"): "start gorxe daemon first", dir: "is not a socket"} {
		h, err := (&invocation{socket: flag}).host()
		if want == "" && (err != nil || h.socket != sock || h.binary == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", flag, h, err)
		}
	}
	if _, err := find("no-such-runtime"); err == nil || !strings.Contains(err.Error(), flagRuntime) {
		t.Error(err)
	}
	t.Setenv("PATH", dir)
	defer func(dirs []string) { systemDirs = dirs }(systemDirs)
	systemDirs = []string{t.TempDir()}
	if _, err := find(""); err == nil || !strings.Contains(err.Error(), "neither runc nor crun") {
		t.Error(err)
	}
	crun := filepath.Join(systemDirs[0], "crun")
	if err := os.WriteFile(crun, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := find(""); err != nil || path != crun {
		t.Errorf("%q, %v", path, err)
	}
}

// No bundle makes a panic, and one that is taken starts gorxe run.
func FuzzContainer(f *testing.F) {
	f.Add([]byte(bundle))
	f.Add([]byte(`{"process": {"args": ["x"]}, "mounts": [7, {"destination": "/proc"}], "linux": {"seccomp": {"syscalls": [3]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s spec
		if json.Unmarshal(text, &s) != nil || s == nil || s.container(host{binary: "/gorxe"}) != nil {
			return
		}
		p, err := s.object("process")
		if err != nil || p == nil {
			t.Fatal("there is no process")
		}
		if args, ok := p["args"].([]string); !ok || args[0] != insideBinary {
			if !mounted(s["mounts"].([]any), insideBinary) {
				t.Errorf("args %v", p["args"])
			}
		}
	})
}
