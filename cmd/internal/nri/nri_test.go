package nri

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"github.com/containerd/nri/pkg/stub"

	"github.com/gorxe/gorxe/internal/test/must"
)

// engine is the half of NRI that containerd and CRI-O have.
type engine struct {
	*adaptation.Adaptation
	socket string
}

// newEngine starts one that has these containers already.
func newEngine(t *testing.T, socket string, pods []*api.PodSandbox, containers []*api.Container) *engine {
	t.Helper()
	synchronize := func(ctx context.Context, plugin adaptation.SyncCB) error {
		_, err := plugin(ctx, pods, containers)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	a := must.Get[*adaptation.Adaptation](t)(adaptation.New("containerd", "v2.2.0", synchronize, update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir())))
	must.OK(t, a.Start())
	e := &engine{a, socket}
	t.Cleanup(a.Stop)
	return e
}

// TestMain takes what the library's half of an engine says.
func TestMain(m *testing.M) {
	nrilog.Set(logger{slog.New(slog.DiscardHandler)})
	os.Exit(m.Run())
}

// create returns what the plugins make of a container; an error if the engine does not make it.
func (e *engine) create(t *testing.T, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, error) {
	r, err := e.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: pod, Container: c})
	return r.GetAdjust(), err
}

// await waits until the engine calls the plugin.
func (e *engine) await(t *testing.T) {
	t.Helper()
	must.Eventually(t, "the plugin is called", func() bool {
		a, err := e.create(t, pod("yes"), container("server"))
		return err == nil && len(a.GetArgs()) > 0
	})
}

// buffer is a log that the plugin writes and the test reads.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs the plugin until the test ends.
func start(t *testing.T, socket string) *buffer {
	t.Helper()
	log := new(buffer)
	p := &Plugin{Socket: socket, Binary: "/opt/gorxe/bin/gorxe", Sockets: "/run", Log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.OK(t, <-ended)
	})
	return log
}

func (b *buffer) await(t *testing.T, what string, times int) {
	t.Helper()
	must.Eventually(t, what, func() bool { return strings.Count(b.String(), what) >= times })
}

func pod(annotation string) *api.PodSandbox {
	return &api.PodSandbox{Id: "p", Name: "web-0", Namespace: "default", Annotations: map[string]string{Annotation: annotation}}
}

func container(name string) *api.Container {
	return &api.Container{Id: name, PodSandboxId: "p", Name: name, Args: []string{"ib_write_bw", "-F"},
		Env:    []string{"PATH=/bin", "GORXE_SOCKET=/etc/shadow", "GORXE_DEVICES=rxe0=eth0"},
		Mounts: []*api.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}},
		Linux:  &api.LinuxContainer{}}
}

// The engine makes a container whose program gorxe run starts.
func TestCreate(t *testing.T) {
	e := newEngine(t, filepath.Join(t.TempDir(), "nri.sock"), nil, nil)
	start(t, e.socket)
	e.await(t)
	a := must.Get[*api.ContainerAdjustment](t)(e.create(t, pod("yes"), container("server")))
	if want := []string{"/.gorxe/gorxe", "run", "--container", "--device=rxe0=eth0", "--", "ib_write_bw", "-F"}; !slices.Equal(a.GetArgs(), want) {
		t.Errorf("it executes %q", a.GetArgs())
	}
	var mounts []string
	for _, m := range a.GetMounts() {
		mounts = append(mounts, m.Source+" "+m.Destination+" "+strings.Join(m.Options, ","))
	}
	if want := []string{"/opt/gorxe/bin/gorxe /.gorxe/gorxe bind,ro,nosuid,nodev", "tmpfs /.gorxe/run nosuid,nodev,noexec,mode=1777,size=1m"}; !slices.Equal(mounts, want) {
		t.Errorf("it mounts %q", mounts)
	}
	if hooks := a.GetHooks().GetCreateRuntime(); len(hooks) != 1 || hooks[0].Path != "/opt/gorxe/bin/gorxe" ||
		!slices.Equal(hooks[0].Args, []string{"gorxe-runtime", "_join", "/run", "rxe0=eth0"}) || hooks[0].GetTimeout().GetValue() != 30 {
		t.Errorf("its hooks are %v", hooks)
	}
	var env []string
	for _, kv := range a.GetEnv() {
		env = append(env, kv.ToOCI())
	}
	if !slices.Equal(env, []string{"GORXE_SOCKET=/.gorxe/run/socket"}) {
		t.Errorf("its environment becomes %q", env)
	}
}

// A container has a device if its pod asks for one by its name, and what cannot have one is
// refused.
func TestAnnotation(t *testing.T) {
	forbids := func(c *api.Container) {
		c.Linux.SeccompPolicy = &api.LinuxSeccomp{DefaultAction: "SCMP_ACT_ERRNO", Syscalls: []*api.LinuxSyscall{{Names: []string{"read"}, Action: "SCMP_ACT_ALLOW"}}}
	}
	allows := func(c *api.Container) {
		c.Linux.SeccompPolicy = &api.LinuxSeccomp{DefaultAction: "SCMP_ACT_ERRNO", Syscalls: []*api.LinuxSyscall{{Names: []string{"seccomp", "memfd_create", "pidfd_open"}, Action: "SCMP_ACT_ALLOW"}}}
	}
	e := newEngine(t, filepath.Join(t.TempDir(), "nri.sock"), nil, nil)
	start(t, e.socket)
	e.await(t)
	for name, c := range map[string]struct {
		pod    *api.PodSandbox
		change func(*api.Container)
		has    bool
		refuse string
	}{
		"no annotation":   {&api.PodSandbox{Name: "web-0"}, nil, false, ""},
		"no":              {pod("no"), forbids, false, ""},
		"yes":             {pod("yes"), allows, true, ""},
		"its name":        {pod("client, server"), nil, true, ""},
		"another's name":  {pod("client"), nil, false, ""},
		"true":            {pod("true"), nil, false, `annotation gorxe of pod web-0 is "true"`},
		"empty":           {pod(""), nil, false, `is ""`},
		"a comma more":    {pod("server,"), nil, false, `is "server,"`},
		"seccomp forbids": {pod("yes"), forbids, false, "linux.seccomp forbids seccomp(2)"},
		"runtime class":   {pod("yes"), func(c *api.Container) { c.Mounts = append(c.Mounts, &api.Mount{Destination: "/.gorxe/gorxe"}) }, false, ""},
		"a mount there":   {pod("yes"), func(c *api.Container) { c.Mounts = append(c.Mounts, &api.Mount{Destination: "/.gorxe/run/x"}) }, false, "/.gorxe/run/x is mounted"},
		"no /proc":        {pod("yes"), func(c *api.Container) { c.Mounts = nil }, false, "/proc is not mounted"},
		"no program":      {pod("yes"), func(c *api.Container) { c.Args = nil }, false, "process.args is empty"},
	} {
		one := container("server")
		if c.change != nil {
			c.change(one)
		}
		a, err := e.create(t, c.pod, one)
		switch {
		case c.refuse != "":
			if err == nil || !strings.Contains(err.Error(), c.refuse) || !strings.Contains(err.Error(), "gorxe: container server: ") {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil, c.has != (len(a.GetArgs()) > 0), c.has != (len(a.GetMounts()) > 0):
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}

// Containers that run already are named. An engine that starts again has the plugin again.
func TestEngineStartsAgain(t *testing.T) {
	running := container("running")
	running.State = api.ContainerState_CONTAINER_RUNNING
	with := container("with")
	with.State = running.State
	with.Mounts = append(with.Mounts, &api.Mount{Destination: "/.gorxe/gorxe"})
	dir := t.TempDir()
	first := newEngine(t, filepath.Join(dir, "first"), []*api.PodSandbox{pod("yes")}, []*api.Container{running, with})
	socket := filepath.Join(dir, "nri.sock")
	end := relay(t, socket, first.socket)
	log := start(t, socket)
	log.await(t, "msg=ready", 1)
	if said := log.String(); !strings.Contains(said, "container=running") || strings.Contains(said, "container=with") {
		t.Error(said)
	}
	end()
	log.await(t, "trying again", 1)
	second := newEngine(t, socket, nil, nil)
	log.await(t, "msg=ready", 2)
	second.await(t)
}

// relay listens at a socket for one connection to an engine. The function that it returns ends
// both, as the end of an engine does.
func relay(t *testing.T, at, to string) (end func()) {
	t.Helper()
	ln := must.Get[net.Listener](t)(net.Listen("unix", at))
	conns := make(chan net.Conn, 2)
	go func() {
		plugin, err := ln.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("unix", to)
		if err != nil {
			return
		}
		conns <- plugin
		conns <- engine
		go io.Copy(plugin, engine) //nolint:errcheck // until they are closed
		io.Copy(engine, plugin)    //nolint:errcheck // likewise
	}()
	return func() {
		ln.Close() //nolint:errcheck // nothing is buffered in it
		(<-conns).Close()
		(<-conns).Close()
	}
}

// Without an engine that it suits, the plugin ends and says why.
func TestNoEngine(t *testing.T) {
	dir := t.TempDir()
	dead := must.Get[*net.UnixListener](t)(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unix"}))
	dead.SetUnlinkOnClose(false)
	must.OK(t, dead.Close())
	other := must.Get[net.Listener](t)(net.Listen("unix", filepath.Join(dir, "other")))
	defer other.Close() //nolint:errcheck // of no use any more
	go func() {
		if conn, err := other.Accept(); err == nil {
			conn.Close()
		}
	}()
	for name, want := range map[string]string{
		"none":  "none does not exist: containerd has it from 2.0 on",
		"dead":  "nothing listens at",
		"other": "it does not register plugins",
	} {
		p := &Plugin{Socket: filepath.Join(dir, name), Log: slog.New(slog.DiscardHandler)}
		if err := p.Run(t.Context()); !errors.Is(err, errNoEngine) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// versioned is a connection to an engine of some version.
type versioned struct {
	stub.Stub
	version string
}

func (v versioned) RuntimeNRIVersion() string { return v.version }

// An engine that does not let plugins change arguments is refused: it would start the program
// without a device.
func TestVersions(t *testing.T) {
	for version, suits := range map[string]bool{
		"v0.8.0": false, "v0.9.0": false, "v0.9.1-0.20250219030224-e597e7849f24": false,
		"v0.10.0": true, "v0.12.5": true, "v1.0.0": true, "unknown": true, "": true,
	} {
		p := &Plugin{Log: slog.New(slog.DiscardHandler), stub: versioned{version: version}}
		_, err := p.Configure(t.Context(), "", "containerd", "v2.1.0")
		if suits != (err == nil) || !suits && (!errors.Is(err, errNoArgs) || !strings.Contains(err.Error(), "containerd v2.1.0 has NRI "+version)) {
			t.Errorf("%q: %v", version, err)
		}
	}
}
