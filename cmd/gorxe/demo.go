package main

import "context"

type demoCmd struct{}

// Run runs the demo.
func (c demoCmd) Run(ctx context.Context, std streams) error { return nil }
