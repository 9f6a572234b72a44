package proto

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/rxe"
)

// Speed is a port's rate in Mb/s; 0: what the network interface says. As text it is
// in Gb/s.
type Speed int

// ParseSpeed reads a rate in Gb/s: one that a port of verbs can have.
func ParseSpeed(text string) (Speed, error) {
	gbps, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of Gb/s, as 2.5 or 100", text)
	}
	var known []string
	for _, s := range rxe.LinkSpeeds() {
		if float64(s.Mbps) == gbps*1000 {
			return Speed(s.Mbps), nil
		}
		known = append(known, Speed(s.Mbps).String())
	}
	return 0, fmt.Errorf("%s Gb/s is no rate of a port: choose one of %s", text, strings.Join(known, ", "))
}

// String is the form that ParseSpeed takes.
func (s Speed) String() string { return strconv.FormatFloat(float64(s)/1000, 'f', -1, 64) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Speed) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSpeed(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s Speed) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// WithSpeed gives specs without a speed of their own this one.
func WithSpeed(specs []Spec, s Speed) []Spec {
	for i := range specs {
		if specs[i].Speed == 0 {
			specs[i].Speed = s
		}
	}
	return specs
}
