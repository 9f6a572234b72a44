package main

type devicesCmd struct {
	JSON bool `name:"json" help:"Print JSON instead of a table."`
}

// Run lists the devices.
func (c devicesCmd) Run(std streams) error { return nil }
