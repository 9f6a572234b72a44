package ociruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/pod"
)

// hookCommand is what the runtime calls this program with, as a hook createRuntime. By then the
// container's namespaces and mounts exist, and no program of the image runs (OCI Runtime
// Specification, config.md, POSIX-platform Hooks).
const hookCommand = "_join"

// hookTimeout, in seconds, bounds the hook: a daemon that ends takes five.
const hookTimeout = 30

// self starts the daemon of a network namespace.
const self = "/proc/self/exe"

// addHook makes the runtime call runHook.
func (s spec) addHook(h host, devices string) error {
	hooks, err := s.object("hooks")
	if err != nil {
		return err
	}
	if hooks == nil {
		hooks = spec{}
	}
	list, ok := hooks["createRuntime"].([]any)
	if !ok && hooks["createRuntime"] != nil {
		return errors.New("hooks.createRuntime is not a list")
	}
	hooks["createRuntime"] = append(list, map[string]any{
		"path":    h.binary,
		"args":    append([]string{Name, hookCommand, h.sockets}, strings.Fields(devices)...),
		"timeout": hookTimeout,
	})
	s["hooks"] = hooks
	return nil
}

// state is what a runtime tells its hooks (OCI Runtime Specification, runtime.md, State).
type state struct {
	ID     string `json:"id"`
	PID    int    `json:"pid"`
	Bundle string `json:"bundle"`
}

// runHook gives a container the daemon of its network namespace. args are the directory of sockets
// and the devices.
func runHook(args []string, stdin io.Reader) error {
	var st state
	if err := json.NewDecoder(io.LimitReader(stdin, maxSpec)).Decode(&st); err != nil {
		return fmt.Errorf("the runtime's state of the container: %w", err)
	}
	if len(args) < 1 || st.PID <= 0 || st.Bundle == "" {
		return errors.New("this is a part of " + Name + " and not a command")
	}
	s, err := readSpec(filepath.Join(st.Bundle, "config.json"))
	if err != nil {
		return err
	}
	root, err := s.root(st.Bundle)
	if err != nil {
		return err
	}
	c := pod.Container{
		PID: st.PID, Directory: insideRun, Devices: args[1:], Place: s.placeOf(st.ID),
		// The process has not changed its root yet.
		Root: filepath.Join("/proc", strconv.Itoa(st.PID), "root", root),
	}
	if err := c.Join(args[0], self); !errors.Is(err, pod.ErrNoRights) {
		return err
	}
	// The runtime of an ordinary user has no rights over the container that it has made. gorxe run
	// starts a daemon in the container, for this container only.
	return nil
}

// root returns the root directory of a bundle.
func (s spec) root(bundle string) (string, error) {
	root, err := s.object("root")
	if err != nil {
		return "", err
	}
	path, ok := root["path"].(string)
	if !ok {
		return "", errors.New("root.path is missing")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(bundle, path)
	}
	return path, nil
}
