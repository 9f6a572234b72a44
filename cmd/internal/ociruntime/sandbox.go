package ociruntime

import "slices"

// sandboxTypes are annotations whose value "sandbox" marks the container that only holds a pod's
// namespaces: of containerd (internal/cri/annotations), of CRI-O and of podman (pkg/annotations).
var sandboxTypes = []string{"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"}

// pausePrograms are what such a container runs. The infra container of podman has no annotation of
// its own in all versions, and neither has one that cri-dockerd makes.
var pausePrograms = [][]string{{"/pause"}, {"/catatonit", "-P"}}

// isSandbox reports whether a container only holds the namespaces of a pod. It needs no device, and
// stays as the engine made it.
func (s spec) isSandbox() bool {
	annotations, _ := s.object("annotations") //nolint:errcheck // the runtime refuses what is wrong
	for _, name := range sandboxTypes {
		if annotations[name] == "sandbox" {
			return true
		}
	}
	process, _ := s.object("process") //nolint:errcheck // as above
	args, err := process.strings("args")
	return err == nil && slices.ContainsFunc(pausePrograms, func(p []string) bool { return slices.Equal(p, args) })
}
