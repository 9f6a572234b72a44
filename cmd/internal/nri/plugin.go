package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"golang.org/x/sys/unix"
)

// Plugin gives devices to containers that an engine makes.
type Plugin struct {
	Socket  string // of the engine
	Binary  string // of gorxe, on the host
	Sockets string // where daemons of network namespaces have their sockets, on the host
	Log     *slog.Logger

	stub       stub.Stub
	engine     string      // its name and version
	configured atomic.Bool // the engine has answered
}

// The interface's names for the plugin. Plugins are called in the order of their index: this one
// comes after those that set the program.
const (
	pluginName  = "gorxe"
	pluginIndex = "90"
)

// again is how long Run waits before it connects again.
const again = time.Second

// Run serves until ctx is done. If the engine ends, Run waits for its successor.
func (p *Plugin) Run(ctx context.Context) error {
	for served := false; ; served = true {
		err := p.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNoArgs), !served && errors.Is(err, errNoEngine):
			return err
		}
		p.Log.Warn("the engine does not answer: trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(again):
		}
	}
}

// errNoEngine: nothing serves the interface.
var errNoEngine = errors.New("no engine with NRI")

// once serves one connection to its end.
func (p *Plugin) once(ctx context.Context) error {
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.configured.Store(false)
	p.stub, err = stub.New(p, stub.WithConnection(conn), stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithLogger(logger{p.Log}))
	if err != nil {
		return err
	}
	if err := p.stub.Run(ctx); err != nil {
		if !p.configured.Load() {
			return fmt.Errorf("%w at %s: it does not register plugins: %w", errNoEngine, p.Socket, err)
		}
		return err
	}
	return errors.New("the engine has closed the connection")
}

func (p *Plugin) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.Socket)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s does not exist: containerd has it from 2.0 on, and CRI-O from 1.30, unless their configuration says no; "+
			"with an older one use the runtime class", errNoEngine, p.Socket)
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nothing listens at %s: start containerd or CRI-O", errNoEngine, p.Socket)
	}
	return nil, fmt.Errorf("%w: %w", errNoEngine, err)
}

// Configure implements stub.ConfigureInterface. It refuses an engine that would start containers
// without gorxe run.
func (p *Plugin) Configure(_ context.Context, _, engine, version string) (api.EventMask, error) {
	p.configured.Store(true)
	has := p.stub.RuntimeNRIVersion()
	if !changesArgs(has) {
		return 0, fmt.Errorf("%s %s has NRI %s, in which %w: containerd 2.2, CRI-O 1.34 and newer ones have another; with this one use the runtime class",
			engine, version, has, errNoArgs)
	}
	p.engine = engine + " " + version
	return 0, nil
}

// Synchronize implements stub.SynchronizeInterface: it has the containers that exist. Nothing
// changes what they execute.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	byID := make(map[string]*api.PodSandbox)
	for _, pod := range pods {
		byID[pod.GetId()] = pod
	}
	for _, c := range containers {
		pod := byID[c.GetPodSandboxId()]
		if a, err := p.adjust(pod, c); a != nil && err == nil && c.GetState() == api.ContainerState_CONTAINER_RUNNING {
			p.Log.Warn("a container has no device, because it started before this plugin: start it again",
				"namespace", pod.GetNamespace(), "pod", pod.GetName(), "container", c.GetName())
		}
	}
	p.Log.Info("ready", "engine", p.engine, "nri", p.stub.RuntimeNRIVersion())
	return nil, nil
}

// CreateContainer implements stub.CreateContainerInterface. After an error the engine does not make
// the container, and shows the error.
func (p *Plugin) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a, err := p.adjust(pod, c)
	if err != nil {
		err = fmt.Errorf("gorxe: container %s: %w", c.GetName(), err)
		p.Log.Warn("a container is refused", "namespace", pod.GetNamespace(), "pod", pod.GetName(), "error", err)
	}
	return a, nil, err
}

// logger takes what the library says. Its steps are of no interest.
type logger struct{ log *slog.Logger }

func (l logger) Debugf(context.Context, string, ...any) {}
func (l logger) Infof(context.Context, string, ...any)  {}

func (l logger) Warnf(_ context.Context, format string, args ...any) {
	l.log.Warn(fmt.Sprintf(format, args...))
}

func (l logger) Errorf(_ context.Context, format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...))
}
