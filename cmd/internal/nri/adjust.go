package nri

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/gorxe/gorxe/cmd/internal/ociruntime"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Annotation of a pod asks for devices: "yes" for all its containers, "no", or their names with
// commas between them.
const Annotation = "gorxe"

// notNames are values that mean "yes" or "no" elsewhere.
var notNames = []string{"", "true", "false", "on", "off", "1", "0"}

// asks reports whether a container of a pod wants a device.
func asks(pod *api.PodSandbox, container string) (bool, error) {
	value, ok := pod.GetAnnotations()[Annotation]
	switch {
	case !ok, value == "no":
		return false, nil
	case value == "yes":
		return true, nil
	}
	names := strings.Split(value, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if slices.Contains(notNames, names[i]) {
			return false, fmt.Errorf(`the annotation %s of pod %s is %q: it is "yes", "no", or the names of containers with commas between them`,
				Annotation, pod.GetName(), value)
		}
	}
	return slices.Contains(names, container), nil
}

// adjust returns how a container becomes one with a device; nil if it stays as it is.
func (p *Plugin) adjust(pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, error) {
	wanted, err := asks(pod, c.GetName())
	if err != nil || !wanted {
		return nil, err
	}
	before := specification(c)
	text, err := json.Marshal(before)
	if err == nil {
		text, err = ociruntime.Change(text, p.Binary, p.Sockets)
	}
	var after specs.Spec
	if err == nil {
		err = json.Unmarshal(text, &after)
	}
	if err != nil || slices.Equal(before.Process.Args, after.Process.Args) {
		return nil, err
	}
	a := new(api.ContainerAdjustment)
	for _, m := range api.FromOCIMounts(after.Mounts[len(before.Mounts):]) {
		a.AddMount(m)
	}
	a.AddHooks(api.FromOCIHooks(after.Hooks))
	for _, e := range after.Process.Env {
		if name, value, _ := strings.Cut(e, "="); !slices.Contains(before.Process.Env, e) {
			a.RemoveEnv(name) // an image may have set it
			a.AddEnv(name, value)
		}
	}
	a.UpdateArgs(after.Process.Args)
	return a, nil
}

// specification is what ociruntime.Change looks at.
func specification(c *api.Container) *specs.Spec {
	s := &specs.Spec{
		Process: &specs.Process{Args: c.GetArgs(), Env: c.GetEnv()}, Annotations: c.GetAnnotations(), Linux: new(specs.Linux),
	}
	for _, m := range c.GetMounts() {
		s.Mounts = append(s.Mounts, m.ToOCI(nil))
	}
	if profile := c.GetLinux().GetSeccompPolicy(); profile != nil {
		s.Linux.Seccomp = &specs.LinuxSeccomp{
			DefaultAction: specs.LinuxSeccompAction(profile.GetDefaultAction()), Syscalls: api.ToOCILinuxSyscalls(profile.GetSyscalls()),
		}
	}
	return s
}

// errNoArgs: an engine of this kind would start the program without gorxe run.
var errNoArgs = errors.New("plugins cannot change what a container executes")

// changesArgs reports whether the engine's version of the interface lets plugins change arguments,
// as v0.10.0 and newer do. An unknown version is taken for a new one.
func changesArgs(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "v%d.%d.", &major, &minor) //nolint:errcheck // n says it
	return n < 2 || major > 0 || minor >= 10
}
