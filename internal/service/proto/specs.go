package proto

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/rocev2"
)

// ParseSpecs reads the values of --devices and --device and returns the devices of both. Those
// of --devices are rxe0, rxe1 and so on, or mlx5_0, mlx5_1 and so on, like an adapter. Without
// values it returns nil. Errors name the argument. They unwrap to ErrSpec, except where this host
// lacks what the argument names.
//
// devices is a number of devices on 127.0.0.1, 127.0.0.2 and so on, or an interface: a
// device on each of its addresses. Or it is what Rails returns.
func ParseSpecs(devices string, texts []string, like Like) ([]Spec, error) {
	specs, err := severalSpecs(devices, like)
	if err != nil {
		return nil, fmt.Errorf("--devices %s: %w", devices, err)
	}
	for _, text := range texts {
		s, err := ParseSpec(text)
		if err == nil {
			err = joins(s, specs)
		}
		if err != nil {
			return nil, fmt.Errorf("--device %s: %w", text, err)
		}
		specs = append(specs, s)
	}
	if len(specs) > tree.MaxDevices {
		return nil, fmt.Errorf("--device: %w: %d devices in all are more than %d", ErrSpec, len(specs), tree.MaxDevices)
	}
	if err := apart(specs); err != nil {
		return nil, err
	}
	return withLike(specs, like)
}

// railsSuffix tells rails from other devices.
const railsSuffix = "rails"

// Rails is the value of --devices for so many rails.
func Rails(n int) string { return strconv.Itoa(n) + railsSuffix }

// railSpecs returns n rails: each on an interface of its own, if the host has as many with an
// address, and else on a loopback address.
func railSpecs(n int, like Like) []Spec {
	specs := make([]Spec, n)
	for i := range specs {
		specs[i] = Spec{Name: like.Name(i), Address: loopbackAddr(i), Rail: true}
	}
	ports, err := rocev2.Interfaces()
	if err != nil {
		return specs
	}
	ports = slices.DeleteFunc(ports, func(p rocev2.PortInfo) bool {
		addrs := slices.DeleteFunc(portAddrs(&p), func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() })
		return len(addrs) == 0
	})
	for i := range specs {
		if len(ports) >= n {
			specs[i] = Spec{Name: like.Name(i), Interface: ports[i].Name, Rail: true}
		}
	}
	return specs
}

// DefaultSpecs returns rxe0 or, like an adapter, mlx5_0 on the interface of the default route, or
// on lo if there is no such route.
func DefaultSpecs(like Like) ([]Spec, error) {
	name, err := rocev2.DefaultInterface()
	return []Spec{{Name: like.Name(0), Interface: name, Like: like}}, err
}

// FreePlaces returns the values of --devices and --device for a run that meets no other: devices on
// free loopback addresses where the values do not say where they are.
func FreePlaces(devices string, texts []string, like Like) (string, []string) {
	if devices == "" && len(texts) == 0 {
		return "", []string{like.freeSpec(0).String()}
	}
	count, rails := strings.CutSuffix(devices, railsSuffix)
	addrs, err := loopbacks(count)
	if devices == "" || err != nil || addrs == nil {
		return devices, texts // ParseSpecs says what is wrong
	}
	var list []string
	for i := range addrs {
		s := like.freeSpec(i)
		s.Rail = rails
		list = append(list, s.String())
	}
	return "", append(list, texts...)
}

// severalSpecs returns the devices of --devices.
func severalSpecs(text string, like Like) ([]Spec, error) {
	if text == "" {
		return nil, nil
	}
	count, rails := strings.CutSuffix(text, railsSuffix)
	addrs, err := loopbacks(count)
	switch {
	case err != nil:
		return nil, err
	case rails && addrs != nil:
		return railSpecs(len(addrs), like), nil
	case addrs == nil:
		if addrs, err = addressesOf(text); err != nil {
			return nil, err
		}
	}
	specs := make([]Spec, len(addrs))
	for i, a := range addrs {
		specs[i] = Spec{Name: like.Name(i), Address: a}
	}
	return specs, nil
}

// loopbacks returns as many addresses as text says, or nil if text is not a number.
func loopbacks(text string) ([]netip.Addr, error) {
	if strings.Trim(text, "+-0123456789") != "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > tree.MaxDevices {
		return nil, fmt.Errorf("%w: want a count from 1 to %d, or the name of an interface", ErrSpec, tree.MaxDevices)
	}
	addrs := make([]netip.Addr, n)
	for i := range addrs {
		addrs[i] = loopbackAddr(i)
	}
	return addrs, nil
}

func loopbackAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i)}) }

// addressesOf returns an interface's addresses except link-local ones, which belong to the
// interface rather than to one of several devices.
func addressesOf(name string) ([]netip.Addr, error) {
	ports, err := rocev2.Interfaces()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(ports, func(p rocev2.PortInfo) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range ports {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("there is no interface of that name: want a count from 1 to %d, or one of %s",
			tree.MaxDevices, strings.Join(names, ", "))
	}
	addrs := slices.DeleteFunc(portAddrs(&ports[i]), netip.Addr.IsLinkLocalUnicast)
	switch {
	case len(addrs) == 0:
		return nil, fmt.Errorf("the interface has no IP address, or only link-local ones: assign one with `ip address add … dev %s`", name)
	case len(addrs) > tree.MaxDevices:
		return nil, fmt.Errorf("the interface has %d addresses, and there can be %d devices: choose addresses with --device NAME=ADDRESS",
			len(addrs), tree.MaxDevices)
	}
	return addrs, nil
}

// portAddrs returns the addresses in a port's GID table, each once.
func portAddrs(p *rocev2.PortInfo) (addrs []netip.Addr) {
	for _, g := range p.GIDs {
		if a := g.Addr(); !g.IsZero() && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// joins refuses a device that has the name or the address of one of others.
func joins(s Spec, others []Spec) error {
	for _, o := range others {
		switch {
		case s.Name == o.Name:
			return fmt.Errorf("%w: %v has that name already: name this one %s", ErrSpec, o, freeName(s, others))
		case s.Address.IsValid() && s.Address == o.Address:
			return fmt.Errorf("%w: %v is on that address already: %s", ErrSpec, o, another(s.Address, others))
		case s.Interface != "" && s.Interface == o.Interface:
			return fmt.Errorf("%w: %v is on that interface already: leave one of them away, or give each an address of its own, as %s=ADDRESS",
				ErrSpec, o, s.Name)
		}
	}
	return nil
}

// freeName returns the first of rxe0, rxe1 and so on, or of mlx5_0, mlx5_1 and so on, that none of
// specs has.
func freeName(like Spec, specs []Spec) string {
	prefix := rxePrefix
	if _, ok := like.ConnectX(); ok {
		prefix = mlx5Prefix
	}
	for i := 0; ; i++ {
		name := prefix + strconv.Itoa(i)
		if !slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == name }) {
			return name
		}
	}
}

// another suggests an address that none of specs has.
func another(taken netip.Addr, specs []Spec) string {
	for i := 0; taken.Is4() && taken.IsLoopback() && i < 255; i++ {
		free := loopbackAddr(i)
		if !slices.ContainsFunc(specs, func(s Spec) bool { return s.Address == free }) {
			return "take another one, as " + free.String()
		}
	}
	return "take another address of this host"
}

// apart refuses a device on an address of an interface that has a device itself.
func apart(specs []Spec) error {
	whole := func(s Spec) bool { return s.Interface != "" }
	if !slices.ContainsFunc(specs, whole) || len(specs) == 1 {
		return nil
	}
	ports, err := rocev2.Interfaces()
	if err != nil {
		return err
	}
	for _, port := range ports {
		i := slices.IndexFunc(specs, func(s Spec) bool { return s.Interface == port.Name })
		if i < 0 {
			continue
		}
		addrs := portAddrs(&port)
		for _, s := range specs {
			if s.Address.IsValid() && slices.Contains(addrs, s.Address) {
				return fmt.Errorf("--device %v: %w: the interface has the address of %v: leave one of them away, or give each an address of its own",
					specs[i], ErrSpec, s)
			}
		}
	}
	return nil
}
