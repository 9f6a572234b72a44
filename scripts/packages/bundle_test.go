package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A bundle is the config.json of a container whose root is the Debian of the package's test.
type bundle struct {
	t    *testing.T
	dir  string
	spec map[string]any
}

// newBundle makes a bundle as `runc spec` does, for root or for an ordinary user.
func newBundle(t *testing.T, root string, flags ...string) *bundle {
	t.Helper()
	b := &bundle{t: t, dir: t.TempDir()}
	cmd := exec.Command("runc", append([]string{"spec"}, flags...)...)
	cmd.Dir = b.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	text, err := os.ReadFile(filepath.Join(b.dir, "config.json"))
	if err == nil {
		err = json.Unmarshal(text, &b.spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.object("root")["path"] = root
	process := b.object("process")
	process["terminal"] = false
	delete(process, "rlimits") // a test may not be allowed to set them
	b.object("linux")["resources"] = map[string]any{}
	return b
}

func (b *bundle) object(name string) map[string]any { return b.spec[name].(map[string]any) }

// program sets the program of the container.
func (b *bundle) program(words ...string) { b.object("process")["args"] = words }

// run runs the container, and returns what it says and its exit code.
func (b *bundle) run(command []string) (string, int) {
	b.t.Helper()
	text, err := json.Marshal(b.spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "config.json"), text, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{b.dir, filepath.Dir(b.dir)} { // an ordinary user runs some
		if err := errors.Join(os.Chown(b.dir, ordinary, ordinary), os.Chmod(dir, 0o755)); err != nil {
			b.t.Fatal(err)
		}
	}
	words := append(slices.Clone(command), "--root", filepath.Join(b.dir, "state"), "run", "--bundle", b.dir, filepath.Base(filepath.Dir(b.dir)))
	cmd := exec.Command(words[0], words[1:]...)
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	return string(said), cmd.ProcessState.ExitCode()
}

const ordinary = 1000 // a user and a group

// unifiedCgroups lets crun start, which refuses control groups of both versions.
const unifiedCgroups = `mount --make-rprivate /; umount -l /sys/fs/cgroup; mount -t cgroup2 cgroup /sys/fs/cgroup; exec "$@"`

// TestBundles runs bundles with runc and with crun, as root, as an ordinary user and in a user
// namespace. The sick ones are refused with a sentence. None leaves a mount or a process.
func TestBundles(t *testing.T) {
	t.Parallel()
	runtime, root := newRoot(t)
	// The pipe belongs to the user, because runc gives it to the user of the container.
	asUser := []string{"setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", "bash", "-o", "pipefail", "-c", `"$@" 2>&1 </dev/null | cat`, "bash"}
	crun := []string{"unshare", "--mount", "sh", "-ec", unifiedCgroups, "sh"}
	crunFlags := []string{runtime, "--gorxe-runtime=/usr/bin/crun", "--cgroup-manager=disabled"}
	for name, r := range map[string]struct{ root, user []string }{
		"runc": {[]string{runtime, "--gorxe-runtime=runc"}, append(slices.Clone(asUser), runtime, "--gorxe-runtime=runc")},
		"crun": {slices.Concat(crun, crunFlags), slices.Concat(crun, asUser, crunFlags)},
	} {
		t.Run(name, func(t *testing.T) {
			for name, make := range bundles() {
				b := newBundle(t, root)
				want, code := make(b)
				if said, got := b.run(r.root); !strings.Contains(said, want) || got != code {
					t.Errorf("%s: exit code %d, want %d and %q\n%s", name, got, code, want, said)
				}
			}
			b := newBundle(t, root, "--rootless")
			for _, ids := range []string{"uidMappings", "gidMappings"} {
				b.object("linux")[ids] = []any{map[string]any{"containerID": 0, "hostID": ordinary, "size": 1}}
			}
			b.program("sh", "-c", "ibv_devices; exit 4")
			if said, code := b.run(r.user); !strings.Contains(said, "rxe0") || code != 4 {
				t.Errorf("an ordinary user: exit code %d\n%s", code, said)
			}
		})
	}
	nothingLeft(t, filepath.Dir(runtime))
	nothingLeft(t, root)
}

// outside finds that a container's daemon runs outside of it: one inside has a lock.
const outside = "test -S /.gorxe/run/socket -a ! -e /.gorxe/run/socket.lock"

// bundles returns changes of a bundle. Each returns what the container says and its exit code.
func bundles() map[string]func(*bundle) (string, int) {
	return map[string]func(*bundle) (string, int){
		"exit code": func(b *bundle) (string, int) {
			b.program("sh", "-c", "ibv_devices; exit 4")
			return "rxe0", 4
		},
		"read-only root": func(b *bundle) (string, int) {
			b.object("root")["readonly"] = true
			b.program("sh", "-c", "ibv_devices; touch /x")
			return "rxe0", 1
		},
		"user namespace": func(b *bundle) (string, int) {
			linux := b.object("linux")
			ids := []any{map[string]any{"containerID": 0, "hostID": 100000, "size": 65536}}
			linux["uidMappings"], linux["gidMappings"] = ids, ids
			linux["namespaces"] = append(linux["namespaces"].([]any), map[string]any{"type": "user"})
			b.program("sh", "-c", "ibv_devices; "+outside+" && exit 5")
			return "rxe0", 5
		},
		"no args": func(b *bundle) (string, int) {
			b.program()
			return "process.args is empty", 1
		},
		"no /proc": func(b *bundle) (string, int) {
			b.spec["mounts"] = b.spec["mounts"].([]any)[1:]
			return "/proc is not mounted", 1
		},
		"no program": func(b *bundle) (string, int) {
			b.program("no-such-program")
			return "gorxe: exec no-such-program", 127
		},
		"another architecture": func(b *bundle) (string, int) {
			b.program("/bin/foreign")
			return "it is a program for s390", 126
		},
		"seccomp":      forbidden("seccomp", "linux.seccomp forbids seccomp(2)", 1),
		"memfd_create": forbidden("memfd_create", "linux.seccomp forbids memfd_create(2)", 1),
		"pidfd_open":   forbidden("pidfd_open", "linux.seccomp forbids pidfd_open(2)", 1),
		// gorxe does without these.
		"process_vm_readv": forbidden("process_vm_readv", "rxe0", 4),
		"pidfd_getfd":      forbidden("pidfd_getfd", "rxe0", 4),
		"ptrace":           forbidden("ptrace", "rxe0", 4),
	}
}

// forbidden is a bundle whose profile forbids a system call.
func forbidden(call, says string, code int) func(*bundle) (string, int) {
	return func(b *bundle) (string, int) {
		b.object("linux")["seccomp"] = map[string]any{"defaultAction": "SCMP_ACT_ALLOW",
			"syscalls": []any{map[string]any{"names": []string{call}, "action": "SCMP_ACT_ERRNO"}}}
		b.program("sh", "-c", "ibv_devices; exit 4")
		return says, code
	}
}

// newRoot builds the runtime and unpacks the Debian, with one program of another architecture.
func newRoot(t *testing.T) (runtime, root string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to unpack a Debian")
	}
	runtime, root = buildRuntime(t), t.TempDir()
	unpackRoot(t, root)
	// An engine's root belongs to the user of the container, so runc makes the mount points as that
	// user. This root serves several users, and has them.
	if err := errors.Join(os.MkdirAll(filepath.Join(root, ".gorxe/run"), 0o755), os.WriteFile(filepath.Join(root, ".gorxe/gorxe"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	foreign := "\x7fELF\x02\x02\x01" + strings.Repeat("\x00", 9) + "\x00\x02\x00\x16" // s390
	if err := os.WriteFile(filepath.Join(root, "bin/foreign"), []byte(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Dir(root), filepath.Dir(runtime), filepath.Dir(filepath.Dir(runtime))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return runtime, root
}

// nothingLeft reports mounts below a directory, and processes whose program or root is there.
func nothingLeft(t *testing.T, dir string, except ...string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir) && !slices.Contains(except, at) {
			t.Errorf("still mounted: %s", line)
		}
	}
	links := make(map[string]string)
	for _, kind := range []string{"exe", "root"} {
		found, err := filepath.Glob("/proc/[0-9]*/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range found {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
				links[link] = to
			}
		}
	}
	for _, link := range slices.Sorted(maps.Keys(links)) {
		t.Errorf("%s is still %s", link, links[link])
	}
}
