package proto

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/internal/provider/profile"
)

// Like is a profile, as profile.Find reads it: the adapter that a device looks like. Empty: none is
// chosen.
type Like string

// DefaultLike is the profile of a ConnectX for which none is chosen.
const DefaultLike Like = "connectx6"

// parseLike reads a profile, as profile.Find.
func parseLike(text string) (Like, error) {
	_, err := profile.Find(text)
	return Like(text), err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Like) UnmarshalText(text []byte) (err error) {
	*l, err = parseLike(string(text))
	return err
}

// ConnectX returns the profile of a device that has the name of an adapter of mlx5. Without a
// profile of its own it has the default.
func (s Spec) ConnectX() (p profile.Profile, ok bool) {
	if !strings.HasPrefix(s.Name, mlx5Prefix) {
		return p, false
	}
	p, err := profile.Find(string(cmp.Or(s.Like, DefaultLike)))
	return p, err == nil
}

// agree refuses a device whose name, profile and speed contradict each other.
func (s Spec) agree() error {
	p, ok := s.ConnectX()
	switch {
	case !ok && s.Like != "":
		return fmt.Errorf("like=%s: %s is the name of a Soft-RoCE device: name it mlx5_0, mlx5_1 and so on", s.Like, s.Name)
	case ok && s.Speed != 0 && !slices.Contains(p.Speeds(), int(s.Speed)):
		var speeds []string
		for _, mbps := range p.Speeds() {
			speeds = append(speeds, Speed(mbps).String())
		}
		return fmt.Errorf("speed=%v: a port of %s has no such speed: choose one of %s", s.Speed, p.Name, strings.Join(speeds, ", "))
	}
	return nil
}

// Suits tells whether a device has the profile, or none is asked for.
func (l Like) Suits(have Spec) bool {
	if l == "" {
		return true
	}
	p, ok := have.ConnectX()
	want, err := profile.Find(string(l))
	return ok && err == nil && p == want
}

// In tells whether one of the devices has the profile, or none is asked for.
func (l Like) In(devices []Spec) bool { return l == "" || slices.ContainsFunc(devices, l.Suits) }

// Name is that of a device to which the user gives none.
func (l Like) Name(index int) string {
	if l != "" {
		return mlx5Prefix + strconv.Itoa(index)
	}
	return rxePrefix + strconv.Itoa(index)
}

func (l Like) freeSpec(index int) Spec { return Spec{Name: l.Name(index), Free: true} }

// withLike gives specs with the name of a ConnectX this profile, if they have none of their own.
func withLike(specs []Spec, l Like) ([]Spec, error) {
	if l == "" || len(specs) == 0 {
		return specs, nil
	}
	found := false
	for i := range specs {
		if _, ok := specs[i].ConnectX(); ok {
			found = true
			specs[i].Like = cmp.Or(specs[i].Like, l)
		}
	}
	if !found {
		return nil, fmt.Errorf("--like %s: %w: no device has the name of a ConnectX: name one so, as --device mlx5_0=lo", l, ErrSpec)
	}
	return specs, nil
}

// Agree refuses the values of --speed and --like if they contradict each other, or one of specs.
func Agree(specs []Spec, speed Speed, l Like) error {
	if len(specs) == 0 && l != "" {
		if err := (Spec{Name: l.Name(0), Like: l, Speed: speed}).agree(); err != nil {
			return fmt.Errorf("--like %s: %w: %w", l, ErrSpec, err)
		}
	}
	for _, s := range WithSpeed(slices.Clone(specs), speed) {
		if err := s.agree(); err != nil {
			return fmt.Errorf("--device %v: %w: %w", s, ErrSpec, err)
		}
	}
	return nil
}
