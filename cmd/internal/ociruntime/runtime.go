package ociruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gorxe/gorxe/internal/service/pod"
	"golang.org/x/sys/unix"
)

// Name is the name under which the gorxe binary is a container runtime.
const Name = "gorxe-runtime"

// runtimes are those that do the work, best first.
var runtimes = []string{"runc", "crun"}

// Main carries out one command of a container engine. It does not return if the runtime that
// does the work was started. Otherwise it returns why not, and says it where the engine looks.
func Main(args []string) error {
	if len(args) > 0 && args[0] == hookCommand {
		return runHook(args[1:], os.Stdin)
	}
	inv, err := parse(args)
	if err != nil {
		return err
	}
	if err = inv.start(); err != nil && inv.log != "" {
		err = errors.Join(err, logError(inv.log, err))
	}
	return err
}

func (inv *invocation) start() error {
	// exec needs the runtime first.
	runtime, err := find(inv.runtime)
	if changeErr := inv.change(runtime); changeErr != nil {
		return changeErr
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", runtime, unix.Exec(runtime, append([]string{runtime}, inv.args...), os.Environ()))
}

// logError appends an error to the engine's log, as runc does with --log-format json.
func logError(name string, err error) error {
	line, encodeErr := json.Marshal(map[string]string{"level": "error", "msg": "gorxe: " + err.Error(), "time": time.Now().Format(time.RFC3339)})
	f, openErr := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if openErr != nil {
		return openErr
	}
	_, writeErr := f.Write(append(line, '\n'))
	return errors.Join(encodeErr, writeErr, f.Close())
}

// change makes the changes that the command asks for. runtime is the one that does the work.
func (inv *invocation) change(runtime string) error {
	switch inv.command {
	case "create", "run", "restore":
		h, err := inv.host()
		if err != nil {
			return err
		}
		name := filepath.Join(inv.bundle, "config.json")
		return edit(name, func(s spec) error { return s.container(h) })
	case "exec":
		if inv.isLeftAlone(runtime) {
			return nil
		}
		h, err := inv.host()
		if err != nil {
			return err
		}
		if inv.process != "" {
			return edit(inv.process, func(s spec) error {
				_, err := s.process(h)
				return err
			})
		}
		if inv.words > 0 {
			words := []string{insideBinary, "run", "--socket", InsideSocket}
			if h.socket == "" {
				words = append(words, flagContainer)
			}
			words = append(append(words, "--"), inv.args[inv.words:]...)
			inv.args = append(inv.args[:inv.words:inv.words], words...)
		}
	}
	return nil // state, kill, delete and others
}

// isLeftAlone reports whether exec's container stayed as its engine made it: it is a sandbox, or
// was made without gorxe-runtime.
func (inv *invocation) isLeftAlone(runtime string) bool {
	if inv.id == "" || runtime == "" {
		return false
	}
	text, err := exec.Command(runtime, append(inv.args[:inv.at:inv.at], "state", inv.id)...).Output()
	var st state
	if err != nil || json.Unmarshal(text, &st) != nil {
		return false // there is no such container, and the runtime says so
	}
	s, err := readSpec(filepath.Join(st.Bundle, "config.json"))
	if err != nil {
		return false
	}
	mounts, _ := s["mounts"].([]any)
	return !mounted(mounts, insideBinary)
}

// edit changes the JSON object in a file.
func edit(name string, change func(spec) error) error {
	s, err := readSpec(name)
	if err != nil {
		return err
	}
	if err := change(s); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return s.write(name)
}

// host finds what the container gets.
func (inv *invocation) host() (h host, err error) {
	if h.binary, err = os.Executable(); err != nil {
		return h, err
	}
	if inv.socket == "" {
		h.sockets, err = pod.Directory()
		return h, err
	}
	info, err := os.Stat(inv.socket)
	switch {
	case err != nil:
		return h, fmt.Errorf("%s: %w: start gorxe daemon first", flagSocket, err)
	case info.Mode().Type() != os.ModeSocket:
		return h, fmt.Errorf("%s: %s is not a socket", flagSocket, inv.socket)
	}
	h.socket, err = filepath.Abs(inv.socket)
	return h, err
}

// systemDirs are where runtimes are installed. Engines call a runtime with an empty environment
// for some commands.
var systemDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// find returns the path of the runtime that does the work.
func find(name string) (string, error) {
	if name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flagRuntime, err)
		}
		return path, nil
	}
	for _, name := range runtimes {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		for _, dir := range systemDirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", errors.New("neither runc nor crun is installed: install one, or name one with " + flagRuntime + "=PATH")
}
