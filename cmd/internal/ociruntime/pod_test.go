package ociruntime

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/pod"
	"github.com/gorxe/gorxe/internal/test/must"
)

// The container that holds a pod's namespaces stays as the engine made it. It need not be one that
// could have a device.
func TestSandbox(t *testing.T) {
	for name, c := range map[string]struct {
		annotations, args string
		is                bool
	}{
		"containerd":            {`{"io.kubernetes.cri.container-type": "sandbox"}`, `["/pause"]`, true},
		"containerd, any image": {`{"io.kubernetes.cri.container-type": "sandbox"}`, `["/my-pause", "-v"]`, true},
		"CRI-O":                 {`{"io.kubernetes.cri-o.ContainerType": "sandbox"}`, `["/usr/bin/pod"]`, true},
		"podman's infra":        {`{"io.container.manager": "libpod"}`, `["/catatonit", "-P"]`, true},
		"cri-dockerd":           {`null`, `["/pause"]`, true},
		"containerd's program":  {`{"io.kubernetes.cri.container-type": "container"}`, `["ib_write_bw"]`, false},
		"CRI-O's program":       {`{"io.kubernetes.cri-o.ContainerType": "container"}`, `["ib_write_bw"]`, false},
		"catatonit as init":     {`{}`, `["/catatonit", "--", "ib_write_bw"]`, false},
		"annotations a list":    {`[]`, `["ib_write_bw"]`, false},
		"an annotation a list":  {`{"io.kubernetes.cri.container-type": ["sandbox"]}`, `["ib_write_bw"]`, false},
	} {
		text := fmt.Sprintf(`{"annotations": %s, "process": {"args": %s}}`, c.annotations, c.args)
		s := parseSpec(t, text)
		if s.isSandbox() != c.is {
			t.Errorf("%s: a sandbox: %v", name, !c.is)
		}
		if err := s.container(host{binary: "/gorxe", sockets: "/run"}); (err == nil) != c.is {
			t.Errorf("%s: %v", name, err) // the bundle has no /proc
		}
		if c.is && !reflect.DeepEqual(plain(t, s), plain(t, parseSpec(t, text))) {
			t.Errorf("%s: became %v", name, s)
		}
	}
}

// exec in a container without gorxe is what the engine asks for.
func TestExecInSandbox(t *testing.T) {
	dir := t.TempDir()
	runtime := filepath.Join(dir, "runtime")
	must.OK(t, os.WriteFile(runtime, []byte("#!/bin/sh\n"+`case "$*" in "--root /r state "*) cat "$4/state" ;; *) exit 1 ;; esac`+"\n"), 0o755))
	for name, mounts := range map[string]string{"sandbox": `[]`, "container": `[{"destination": "/.gorxe/gorxe"}]`} {
		b := filepath.Join(dir, name)
		must.OK(t, os.Mkdir(b, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(b, "config.json"), []byte(`{"mounts": `+mounts+`}`), 0o644))
		must.OK(t, os.WriteFile(filepath.Join(b, "state"), []byte(`{"pid": 7, "bundle": "`+b+`"}`), 0o644))
	}
	for name, alone := range map[string]bool{"sandbox": true, "container": false, "no-such": false} {
		inv, err := parse([]string{"--root", "/r", "exec", filepath.Join(dir, name), "id"})
		must.OK(t, err)
		must.OK(t, inv.change(runtime))
		if slices.Contains(inv.args, insideBinary) == alone {
			t.Errorf("%s: %q", name, inv.args)
		}
	}
}

// A hook that cannot work says so, and the runtime shows that.
func TestHook(t *testing.T) {
	b := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(b, "config.json"), []byte(`{"root": {"path": "rootfs"}}`), 0o644))
	empty := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(empty, "config.json"), []byte(`{}`), 0o644))
	const noProcess = 1 << 22 // PID_MAX_LIMIT
	for name, c := range map[string]struct {
		state string
		args  []string
		want  string
	}{
		"no state":       {"", []string{"/run"}, "the runtime's state of the container"},
		"no process":     {`{"bundle": "/b"}`, []string{"/run"}, "not a command"},
		"by hand":        {`{"pid": 1, "bundle": "/b"}`, nil, "not a command"},
		"no bundle":      {fmt.Sprintf(`{"pid": 1, "bundle": %q}`, b+"/none"), []string{"/run"}, "config.json"},
		"no root":        {fmt.Sprintf(`{"pid": 1, "bundle": %q}`, empty), []string{"/run"}, "root.path is missing"},
		"a dead process": {fmt.Sprintf(`{"pid": %d, "bundle": %q}`, noProcess, b), []string{"/run"}, "pidfd_open"},
		"no mount":       {fmt.Sprintf(`{"pid": %d, "bundle": %q}`, os.Getpid(), b), []string{t.TempDir()}, "no such file"},
	} {
		if err := runHook(c.args, strings.NewReader(c.state)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for path, want := range map[string]string{"rootfs": "/b/rootfs", "/x/merged": "/x/merged"} {
		if got, err := (spec{"root": map[string]any{"path": path}}).root("/b"); err != nil || got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// A container has the names of its engine, and else its id.
func TestPlace(t *testing.T) {
	const id = "0123456789abcdef"
	for name, c := range map[string]struct {
		annotations string
		want        pod.Place
	}{
		"containerd": {`{"io.kubernetes.cri.container-name": "server", "io.kubernetes.cri.sandbox-name": "web-0", "io.kubernetes.cri.sandbox-namespace": "default"}`,
			pod.Place{Namespace: "default", Pod: "web-0", Container: "server"}},
		"CRI-O": {`{"io.kubernetes.container.name": "server", "io.kubernetes.pod.name": "web-0", "io.kubernetes.pod.namespace": "default"}`,
			pod.Place{Namespace: "default", Pod: "web-0", Container: "server"}},
		"podman":   {`{"io.container.manager": "libpod"}`, pod.Place{Pod: id[:12], Container: id[:12]}},
		"none":     {`null`, pod.Place{Pod: id[:12], Container: id[:12]}},
		"a number": {`{"io.kubernetes.cri.sandbox-name": 7, "io.kubernetes.cri.container-name": ""}`, pod.Place{Pod: id[:12], Container: id[:12]}},
		"long":     {`{"io.kubernetes.cri.sandbox-name": "` + strings.Repeat("x", 300) + `"}`, pod.Place{Pod: strings.Repeat("x", 253), Container: id[:12]}},
	} {
		if got := parseSpec(t, `{"annotations": `+c.annotations+`}`).placeOf(id); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
