package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/gorxe/gorxe/cmd/internal/ociruntime"
	"github.com/gorxe/gorxe/internal/service/daemon"
	"github.com/gorxe/gorxe/internal/service/pod"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

// servePod is the daemon of the containers of a network namespace, which gorxe-runtime starts.
func servePod(args []string, std streams) int {
	raiseProcessors()
	ctx, err := untilSignal()
	if err == nil {
		err = pod.Serve(ctx, args, startPod)
	}
	if err != nil {
		complain(std, err)
		return exitFailed
	}
	return exitOK
}

// startPod starts the devices of a network namespace's containers. words are the value of
// ociruntime.EnvDevices of the first one.
func startPod(words []string, conns <-chan proto.Arrival) (pod.Server, error) {
	var specs []proto.Spec
	var err error
	switch {
	case len(words) == 0:
		specs, err = proto.DefaultSpecs("")
	case len(words) == 1 && !strings.Contains(words[0], "="):
		specs, err = proto.ParseSpecs(words[0], nil, "")
	default:
		specs, err = proto.ParseSpecs("", words, "")
	}
	if err != nil {
		return nil, err
	}
	server, err := daemon.Start(daemon.Config{
		Devices: specs, Socket: ociruntime.InsideSocket, Conns: conns, Log: slog.New(slog.DiscardHandler),
	})
	if errors.Is(err, rocev2.ErrPortTaken) {
		err = fmt.Errorf("%w. In a container, %s chooses another address, and --gorxe-socket of %s the daemon that has this one",
			err, ociruntime.EnvDevices, ociruntime.Name)
	}
	if err != nil {
		return nil, err // without the type: a nil server is no nil interface
	}
	return server, nil
}

// raiseProcessors gives Go the processors that a daemon needs beside the usual ones.
func raiseProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + daemon.SpareProcessors())
	}
}
