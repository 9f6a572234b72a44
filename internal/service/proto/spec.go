package proto

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
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
	Free      bool       `json:"free,omitempty"`
}

// free is where a device with Free is, as ParseSpec reads it.
const free = "free"

// FreeSpec is a device rxe0, rxe1 and so on at a free address.
func FreeSpec(index int) Spec { return Spec{Name: "rxe" + strconv.Itoa(index), Free: true} }

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
	return s.Name + "=" + where
}

// speedOption stands between where a device is and its speed.
const speedOption = ",speed="

// maxName is IB_DEVICE_NAME_MAX without the zero byte.
const maxName = 63

// ParseSpec reads NAME=INTERFACE, NAME=ADDRESS or NAME=free, with ",speed=GBPS" behind it or not.
func ParseSpec(text string) (Spec, error) {
	name, where, ok := strings.Cut(text, "=")
	if !ok || where == "" {
		return Spec{}, fmt.Errorf("%w %q: want NAME=INTERFACE, NAME=ADDRESS or NAME=free, as rxe0=eth0 or rxe0=127.0.0.1", ErrSpec, text)
	}
	if err := checkName(name); err != nil {
		return Spec{}, err
	}
	s := Spec{Name: name}
	if at, speed, ok := strings.Cut(where, speedOption); ok {
		var err error
		if s.Speed, err = ParseSpeed(speed); err != nil {
			return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
		}
		where = at
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

// checkName requires the prefix "rxe". Without NETLINK_RDMA, libibverbs chooses the provider
// of a device by its name (rdma-core providers/rxe/rxe.c, VERBS_NAME_MATCH). It leaves out a
// device that no provider claims.
func checkName(name string) error {
	rest, ok := strings.CutPrefix(name, "rxe")
	switch {
	case !ok:
		return fmt.Errorf("%w: the name %q must begin with \"rxe\": by that prefix libibverbs finds the provider of the device", ErrSpec, name)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name %q is longer than %d bytes", ErrSpec, name, maxName)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	if strings.Trim(rest, letters) != "" {
		return fmt.Errorf("%w: the name %q may have letters, digits and \"_-.\" after \"rxe\"", ErrSpec, name)
	}
	return nil
}

// Suits tells whether have is the device that s asks for. Without a speed of its own, s
// takes any. A device on a free address suits a run that asks for one, or for lo: see Loopback.
func (s Spec) Suits(have Spec) bool {
	if s.Speed != 0 && s.Speed != have.Speed || s.Name != have.Name {
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
