package main

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// TestEcho runs a server and a client, on one device that they share.
func TestEcho(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const address = "127.79.0.1:7471"
	var serverOut, clientOut bytes.Buffer
	listening, served := make(chan struct{}), make(chan error, 1)
	go func() { served <- run(ctx, &serverOut, address, true, "default", func() { close(listening) }) }()
	select {
	case <-listening:
	case err := <-served:
		t.Fatal(err)
	}
	if err := run(ctx, &clientOut, address, false, "default", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if got := clientOut.String(); got != "connected to "+address+"\nreceived \"pong\"\n" {
		t.Errorf("the client printed %q", got)
	}
	if !bytes.HasSuffix(serverOut.Bytes(), []byte("received \"ping\"\n")) {
		t.Errorf("the server printed %q", serverOut.String())
	}
}
