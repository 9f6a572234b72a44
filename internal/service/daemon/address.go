package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
	"github.com/gorxe/gorxe/wire"
)

// startDevice starts a device, and completes spec with its address if that is a free one.
//
// A private daemon takes a free address, too, if UDP port 4791 of lo is taken, as by the gorxe of
// another user. A device of lo is for this host only, so its programs meet at any address. The run
// says so.
func (s *Server) startDevice(spec *proto.Spec, index int, c common) (d *device, err error) {
	if !spec.Free {
		d, err = startDevice(*spec, index, c)
		if !s.cfg.Private || !spec.Loopback() || !errors.Is(err, rocev2.ErrPortTaken) {
			return d, err
		}
	}
	return d, rocev2.OnFreeLoopback(func(a netip.Addr) (err error) {
		at := proto.Spec{Name: spec.Name, Address: a, Speed: spec.Speed, Free: true}
		if d, err = startDevice(at, index, c); err == nil {
			*spec = at
		}
		return err
	})
}

// address is that of the first device, by which programs on this host reach it: an IPv4 address if
// it has one.
func (s *Server) address() (best netip.Addr) {
	if len(s.devices) == 0 {
		return best
	}
	info := s.devices[0].engine.PortInfo()
	for _, g := range info.GIDs {
		a := g.Addr()
		switch {
		case g.IsZero():
		case a.Is4():
			return a
		case !best.IsValid(), best.IsLinkLocalUnicast():
			best = a
		}
	}
	return best
}

// explain adds a remedy to the error of a device that does not start.
func (s *Server) explain(err error) error {
	if !errors.Is(err, rocev2.ErrPortTaken) {
		return err
	}
	holders := ""
	if names := portUsers(); len(names) > 0 {
		holders = " Sockets of UDP port 4791 belong to " + strings.Join(names, ", ") + "."
	}
	return fmt.Errorf("%w.%s Take a device of your own with `gorxe run --private`, or an address of your own with --device, as rxe0=127.0.0.2. "+
		"Or attach to the other daemon's socket (--socket, %s), where its user lets you", err, holders, proto.EnvSocket)
}

// portUsers names the users who have sockets of the RoCEv2 port in this network namespace.
func portUsers() (names []string) {
	for _, table := range []string{"udp", "udp6"} {
		text, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue // the error has no holders then
		}
		for line := range strings.Lines(string(text)) {
			// "sl local_address rem_address st tx:rx tr:when retrnsmt uid"
			f := strings.Fields(line)
			if len(f) < 8 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", wire.UDPPort)) {
				continue
			}
			name := "user " + f[7]
			if u, err := user.LookupId(f[7]); err == nil {
				name += " (" + strconv.Quote(u.Username) + ")"
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
