package proto

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrSpec: the description of a device is malformed.
var ErrSpec = errors.New("invalid device")

// Spec describes a device: on all addresses of an interface, or on one address.
//
// A device with Free is on a loopback address that no other device has. The daemon chooses Address.
type Spec struct {
	Name      string     `json:"name"`
	Interface string     `json:"interface,omitempty"`
	Address   netip.Addr `json:"address,omitzero"`
	Speed     Speed      `json:"speed,omitzero"`
	// of a ConnectX; empty: the default profile, or any
	Like Like `json:"like,omitempty"`
	Free bool `json:"free,omitempty"`
	Rail bool `json:"rail,omitempty"` // one of --rails
}

// free is where a device with Free is, as ParseSpec reads it.
const free = "free"

// FreeSpec is a device rxe0, rxe1 and so on at a free address.
func FreeSpec(index int) Spec { return Like("").freeSpec(index) }

// String returns the form that ParseSpec reads.
func (s Spec) String() string {
	where := s.Interface
	switch {
	case s.Address.IsValid():
		where = s.Address.String()
	case s.Free:
		where = free
	}
	if s.Speed != 0 {
		where += speedOption + s.Speed.String()
	}
	if s.Like != "" {
		where += likeOption + string(s.Like)
	}
	if s.Rail {
		where += railOption
	}
	return s.Name + "=" + where
}

// What stands between where a device is and its options.
const (
	speedOption = ",speed="
	likeOption  = ",like="
	railOption  = ",rail"
)

// maxName is IB_DEVICE_NAME_MAX without the zero byte.
const maxName = 63

// ParseSpec reads NAME=INTERFACE, NAME=ADDRESS or NAME=free. Behind it may be ",speed=GBPS",
// ",like=PROFILE" and ",rail".
func ParseSpec(text string) (Spec, error) {
	name, where, ok := strings.Cut(text, "=")
	if !ok || where == "" {
		return Spec{}, fmt.Errorf("%w %q: want NAME=INTERFACE, NAME=ADDRESS or NAME=free, as rxe0=eth0 or rxe0=127.0.0.1", ErrSpec, text)
	}
	if err := checkName(name); err != nil {
		return Spec{}, err
	}
	s := Spec{Name: name}
	where, options := splitOptions(where)
	if err := s.setOptions(options); err != nil {
		return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
	}
	if where == free {
		s.Free = true
		return s, nil
	}
	if addr, err := netip.ParseAddr(where); err == nil {
		s.Address = addr.Unmap()
		return s, nil
	}
	// The kernel's own rule: net/core/dev.c:dev_valid_name.
	if len(where) > 15 || strings.ContainsAny(where, "/: \t\n") {
		return Spec{}, fmt.Errorf("%w %q: %q is neither an IP address nor the name of an interface", ErrSpec, text, where)
	}
	s.Interface = where
	return s, nil
}

// splitOptions divides what follows the name. The name of an interface may have a comma.
func splitOptions(text string) (where string, options []string) {
	at := len(text)
	for _, o := range []string{speedOption, likeOption, railOption} {
		if i := strings.Index(text, o); i >= 0 {
			at = min(at, i)
		}
	}
	if at < len(text) {
		options = strings.Split(text[at+1:], ",")
	}
	return text[:at], options
}

// setOptions reads the options of a device.
func (s *Spec) setOptions(options []string) (err error) {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case name == "speed" && s.Speed == 0:
			s.Speed, err = ParseSpeed(value)
		case name == "like" && s.Like == "":
			s.Like, err = parseLike(value)
		case o == "rail":
			s.Rail = true
		case name == "speed", name == "like":
			err = fmt.Errorf("it has %s= twice", name)
		default:
			err = fmt.Errorf("%q is neither speed=GBPS nor like=PROFILE nor rail", o)
		}
		if err != nil {
			return err
		}
	}
	return s.agree()
}

// The names of devices. Without NETLINK_RDMA, libibverbs chooses the provider of a Soft-RoCE device
// by the prefix (rdma-core providers/rxe/rxe.c, VERBS_NAME_MATCH). It leaves out a device that no
// provider claims. An adapter of mlx5 may have any name (providers/mlx5/mlx5.c: mlx5_hca_table);
// the kernel calls it mlx5_0, which is what programs and their users expect.
const (
	rxePrefix  = "rxe"
	mlx5Prefix = "mlx5_"
)

// checkName requires one of the prefixes.
func checkName(name string) error {
	rest, isRXE := strings.CutPrefix(name, rxePrefix)
	prefix, isMLX5 := rxePrefix, false
	if !isRXE {
		rest, isMLX5 = strings.CutPrefix(name, mlx5Prefix)
		prefix = mlx5Prefix
	}
	switch {
	case !isRXE && !isMLX5 || isMLX5 && rest == "":
		return fmt.Errorf("%w: the name %q must begin with \"rxe\": by that prefix libibverbs finds the provider of the device. Or it is mlx5_0, mlx5_1 and so on, for a device like a ConnectX", ErrSpec, name)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name %q is longer than %d bytes", ErrSpec, name, maxName)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if strings.Trim(rest, letters) != "" {
		return fmt.Errorf("%w: the name %q may have letters, digits and \"_-.\" after %q", ErrSpec, name, prefix)
	}
	return nil
}

// Suits tells whether have is the device that s asks for. Without a speed or a profile of its own,
// s takes any. A device on a free address suits a run that asks for one, or for lo: see Loopback.
func (s Spec) Suits(have Spec) bool {
	if s.Speed != 0 && s.Speed != have.Speed || !s.Like.Suits(have) || s.Name != have.Name {
		return false
	}
	if have.Free && (s.Free || s.Loopback()) {
		return true
	}
	return !s.Free && s.Interface == have.Interface && s.Address == have.Address
}

// Loopback reports whether the device is for this host only, on whichever address. If the UDP port
// of lo is taken, such a device can be on a free address instead.
func (s Spec) Loopback() bool { return s.Interface == "lo" }

// DeviceError is the error of a device that does not start.
type DeviceError struct {
	Device Spec
	Err    error
}

func (e *DeviceError) Error() string { return fmt.Sprintf("device %v: %v", e.Device, e.Err) }
func (e *DeviceError) Unwrap() error { return e.Err }
