package proto

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// places are the directories of a test's user, none of which exists.
func places(t *testing.T) (run, temp, cache string) {
	t.Helper()
	dir := t.TempDir()
	old := runUser
	runUser = filepath.Join(dir, "run")
	t.Cleanup(func() { runUser = old })
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	for _, d := range []string{runUser, os.TempDir()} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	dirs := userDirs(os.Geteuid())
	return dirs[0].path, dirs[1].path, dirs[2].path
}

func sockets(t *testing.T) []string {
	t.Helper()
	list, err := userSockets(os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func in(dirs ...string) (sockets []string) {
	for _, d := range dirs {
		sockets = append(sockets, filepath.Join(d, "gorxe.sock"))
	}
	return sockets
}

// TestUserSockets: the first directory that is the user's alone is used, and a client looks at the
// others.
func TestUserSockets(t *testing.T) {
	run, temp, cache := places(t)
	if got := sockets(t); !reflect.DeepEqual(got, in(temp)) {
		t.Errorf("at first: %q", got)
	}
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := sockets(t); !reflect.DeepEqual(got, in(run, temp)) {
		t.Errorf("with a directory of logind: %q", got)
	}
	if _, err := os.Lstat(cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not needed: %v", err)
	}
	other := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", other)
	if got := sockets(t); !reflect.DeepEqual(got, in(other)) {
		t.Errorf("with XDG_RUNTIME_DIR: %q", got)
	}
	t.Setenv("XDG_RUNTIME_DIR", other+"/none") // as that of another user after su
	if got := sockets(t); !reflect.DeepEqual(got, in(run, temp)) {
		t.Errorf("with an XDG_RUNTIME_DIR that is not there: %q", got)
	}
}

// TestTakenDirectory: another user has taken the directory in /tmp. The user has another one, which
// clients find also when the first is free again.
func TestTakenDirectory(t *testing.T) {
	take := map[string]func(string) error{
		"a directory for all": func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) },
		"a file":              func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a link":              func(p string) error { return os.Symlink("/", p) },
	}
	if os.Geteuid() == 0 {
		take["a directory of another user"] = func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chown(p, 65534, 65534)) }
	}
	for name, take := range take {
		t.Run(name, func(t *testing.T) {
			_, temp, cache := places(t)
			if err := take(temp); err != nil {
				t.Fatal(err)
			}
			if got := sockets(t); !reflect.DeepEqual(got, in(cache)) {
				t.Errorf("%q", got)
			}
			if err := os.Remove(temp); err != nil {
				t.Fatal(err)
			}
			if got := sockets(t); !reflect.DeepEqual(got, in(temp, cache)) {
				t.Errorf("when it is free again: %q", got)
			}
		})
	}
}

// TestNoDirectory: the error names each place, and what to do.
func TestNoDirectory(t *testing.T) {
	_, temp, cache := places(t)
	for _, p := range []string{temp, filepath.Dir(cache)} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := userSockets(os.Geteuid())
	if err == nil {
		t.Fatal("a socket without a directory")
	}
	for _, word := range []string{temp, filepath.Dir(cache), "XDG_RUNTIME_DIR", EnvSocket} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
}
