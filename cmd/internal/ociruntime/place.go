package ociruntime

import (
	"cmp"

	"github.com/gorxe/gorxe/internal/service/pod"
)

// maxName bounds what is taken of a name, in bytes: Kubernetes allows no longer one.
const maxName = 253

// shortID is how much of a container's id engines show.
const shortID = 12

// placeOf says how the engine names a container: by annotations of containerd
// (internal/cri/annotations), or by kubelet's labels, which CRI-O makes annotations. Other engines
// have the container's id only.
func (s spec) placeOf(id string) pod.Place {
	annotations, _ := s.object("annotations") //nolint:errcheck // the runtime refuses what is wrong
	name := func(keys ...string) string {
		for _, key := range keys {
			if text, ok := annotations[key].(string); ok && text != "" {
				return text[:min(len(text), maxName)]
			}
		}
		return ""
	}
	id = id[:min(len(id), shortID)]
	return pod.Place{
		Namespace: name("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
		Pod:       cmp.Or(name("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"), id),
		Container: cmp.Or(name("io.kubernetes.cri.container-name", "io.kubernetes.container.name"), id),
	}
}
