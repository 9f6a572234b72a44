package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/daemon"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// chosen reports whether the flags choose devices.
func (s *selection) chosen() bool {
	return len(s.Device) > 0 || s.devices() != "" || s.Speed != 0 || s.Like != ""
}

// asSeen prints what programs find of the devices.
func (c devicesCmd) asSeen(w io.Writer) error {
	seen, err := c.seen()
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(w, seen)
	}
	return writeSeen(w, seen)
}

// seen asks the daemon, if there is one and the flags choose no devices.
func (c devicesCmd) seen() ([]proto.Seen, error) {
	if !c.chosen() {
		client, err := dialDaemon(c.Socket)
		if err == nil {
			defer client.Close()
			return client.Seen()
		}
		// A socket that the user names must have a daemon.
		if c.Socket != "" || !errors.Is(err, proto.ErrNoDaemon) {
			return nil, err
		}
	}
	specs, err := c.specs()
	if err == nil && len(specs) == 0 {
		specs, err = proto.DefaultSpecs(c.Like)
	}
	if err != nil {
		return nil, err
	}
	return daemon.SeenOf(proto.WithSpeed(specs, c.Speed))
}

// writeSeen prints each device as a block of lines: name and value.
func writeSeen(w io.Writer, seen []proto.Seen) error {
	t := newTable(w)
	for i, s := range seen {
		if i > 0 {
			fmt.Fprintln(t)
		}
		fmt.Fprintf(t, "%s\t%s\n", s.Name, s.Path)
		fmt.Fprintf(t, "  node\t%s %s, mode %s\n", s.Node.Path, s.Node.Number, s.Node.Mode)
		writeAttributes(t, "  ", s.Attributes)
		for _, p := range s.Ports {
			fmt.Fprintf(t, "  port %d\t\n", p.Number)
			writeAttributes(t, "    ", p.Attributes)
			for _, g := range p.GIDs {
				fmt.Fprintf(t, "    gid %d\t%s %s %s\n", g.Index, g.GID, g.Type, g.Netdev)
			}
			for i, key := range p.PKeys {
				fmt.Fprintf(t, "    pkey %d\t%s\n", i, key)
			}
		}
		fmt.Fprintf(t, "  parent\t%s\n", s.Parent.Path)
		fmt.Fprintf(t, "    subsystem\t%s\n    driver\t%s\n", s.Parent.Subsystem, s.Parent.Driver)
		writeAttributes(t, "    ", s.Parent.Attributes)
	}
	return t.Flush()
}

func writeAttributes(w io.Writer, indent string, list []proto.Attribute) {
	for _, a := range list {
		value := a.Value
		switch {
		case a.Errno != "":
			value = "(" + a.Errno + ")"
		case value == "" || strings.ContainsAny(value, "\n\t"):
			value = strconv.Quote(value)
		}
		fmt.Fprintf(w, "%s%s\t%s\n", indent, a.Name, value)
	}
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
