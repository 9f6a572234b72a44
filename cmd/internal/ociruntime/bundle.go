package ociruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/service/pod"
)

// Where things are in the container.
const (
	inside       = "/.gorxe"
	insideBinary = inside + "/gorxe"
	insideRun    = inside + "/run"
	envSocket    = "GORXE_SOCKET"
	// EnvDevices chooses the devices of a container's network namespace, if the container is the
	// first there: a number, or NAME=WHERE with spaces between them. The default is a device on
	// the interface of the default route.
	EnvDevices = "GORXE_DEVICES"
)

// flagContainer is the flag of gorxe run for programs whose daemon runHook starts.
const flagContainer = "--container"

// InsideSocket is where a container's programs find their daemon.
const InsideSocket = insideRun + "/" + pod.SocketName

// maxSpec bounds what is read of a file that an engine has written.
const maxSpec = 16 << 20

// A spec is a JSON object. Members that this package does not know stay as they are.
type spec map[string]any

// host is what a container gets from this host.
type host struct {
	binary string // of gorxe
	socket string // of a daemon; empty if the container has devices of its network namespace
	// sockets is the directory where daemons of network namespaces have their sockets.
	sockets string
}

func readSpec(name string) (spec, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSpec {
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", name, maxSpec>>20)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func decode(text []byte) (s spec, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // 64-bit limits keep their digits
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("no JSON object")
	}
	return s, nil
}

// write replaces a file with the same mode and owner. A reader sees the old text or the new.
func (s spec) write(name string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gorxe-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name()) //nolint:errcheck // err says what is wrong
	}
	return err
}

// object returns a member that is an object; nil if there is none.
func (s spec) object(name string) (spec, error) {
	switch v := s[name].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("%s is not an object", name)
}

// strings returns a member that is a list of strings.
func (s spec) strings(name string) ([]string, error) {
	list, ok := s[name].([]any)
	if !ok && s[name] != nil {
		return nil, fmt.Errorf("%s is not a list", name)
	}
	words := make([]string, 0, len(list))
	for _, v := range list {
		w, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s has a member that is not a string", name)
		}
		words = append(words, w)
	}
	return words, nil
}

// container changes the specification of a container.
func (s spec) container(h host) error {
	process, err := s.object("process")
	if err != nil {
		return err
	}
	if process == nil {
		return errors.New("process is missing, so there is no program to start")
	}
	if s.isSandbox() {
		return nil
	}
	mounts, ok := s["mounts"].([]any)
	if !ok && s["mounts"] != nil {
		return errors.New("mounts is not a list")
	}
	if !mounted(mounts, "/proc") {
		return errors.New("/proc is not mounted, and gorxe finds the memory of programs there")
	}
	if mounted(mounts, insideBinary) {
		return nil // by an earlier create of the same bundle
	}
	if at := mountedBelow(mounts, inside); at != "" {
		return fmt.Errorf("%s is mounted, and gorxe needs %s for itself", at, inside)
	}
	if err := s.checkSeccomp(); err != nil {
		return err
	}
	devices, err := process.process(h)
	if err != nil {
		return err
	}
	if h.socket == "" {
		if err := s.addHook(h, devices); err != nil {
			return err
		}
	}
	mounts = append(mounts, mount(insideBinary, "bind", h.binary, "bind", "ro", "nosuid", "nodev"))
	if h.socket != "" {
		mounts = append(mounts, mount(InsideSocket, "bind", h.socket, "bind", "nosuid", "nodev"))
	} else {
		mounts = append(mounts, mount(insideRun, "tmpfs", "tmpfs", "nosuid", "nodev", "noexec", "mode=1777", "size=1m"))
	}
	s["mounts"] = mounts
	return nil
}

func mount(destination, kind, source string, options ...string) map[string]any {
	return map[string]any{"destination": destination, "type": kind, "source": source, "options": options}
}

func mounted(mounts []any, destination string) bool {
	return slices.ContainsFunc(mounts, func(m any) bool {
		o, ok := m.(map[string]any)
		at, isString := o["destination"].(string)
		return ok && isString && filepath.Clean(at) == destination
	})
}

// mountedBelow returns a mount at a directory or below it. Another container could change such
// files while gorxe sets up this one.
func mountedBelow(mounts []any, directory string) string {
	for _, m := range mounts {
		o, _ := m.(map[string]any)
		at, _ := o["destination"].(string)
		if at = filepath.Clean("/" + at); at == directory || strings.HasPrefix(at, directory+"/") {
			return at
		}
	}
	return ""
}

// maxDevices bounds the value of EnvDevices, which comes from the image.
const maxDevices = 4 << 10

// process changes a process: gorxe run starts it. It returns the value of EnvDevices.
func (s spec) process(h host) (devices string, err error) {
	args, err := s.strings("args")
	if err != nil {
		return "", fmt.Errorf("process: %w", err)
	}
	if len(args) == 0 {
		return "", errors.New("process.args is empty, so there is no program to start")
	}
	env, err := s.strings("env")
	if err != nil {
		return "", fmt.Errorf("process: %w", err)
	}
	env = slices.DeleteFunc(env, func(e string) bool {
		if value, ok := strings.CutPrefix(e, EnvDevices+"="); ok {
			devices = value
		}
		return strings.HasPrefix(e, envSocket+"=")
	})
	if len(devices) > maxDevices {
		return "", fmt.Errorf("process.env: %s has more than %d bytes", EnvDevices, maxDevices)
	}
	run := []string{insideBinary, "run"}
	if h.socket == "" {
		run = append(append(run, flagContainer), deviceFlags(devices)...)
	}
	s["args"] = append(append(run, "--"), args...)
	s["env"] = append(env, envSocket+"="+InsideSocket)
	return devices, nil
}

// deviceFlags returns the flags of gorxe run for the value of EnvDevices. gorxe run, which
// runs in the container, refuses what is wrong.
func deviceFlags(value string) (flags []string) {
	words := strings.Fields(value)
	if len(words) == 1 && !strings.Contains(words[0], "=") {
		return []string{"--devices=" + words[0]}
	}
	for _, w := range words {
		flags = append(flags, "--device="+w)
	}
	return flags
}
