package proto

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gorxe/gorxe/rxe"
)

// ECN says how devices answer congestion: "on", "off", or parameters that differ from the
// defaults, as "rpg_ai_rate=20,cnp_dscp=46". Empty: nothing is said, which means on.
type ECN string

// ParseECN reads an ECN.
func ParseECN(text ECN) (rxe.ECN, error) {
	e := rxe.DefaultECN()
	switch text {
	case "", "on":
		return e, nil
	case "off":
		e.Off = true
		return e, nil
	}
	params := e.Params()
	var names []string
	for _, p := range params {
		names = append(names, p.Name)
	}
	for word := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(word, "=")
		known := false
		for _, p := range params {
			if p.Name != name {
				continue
			}
			n, err := strconv.Atoi(value)
			if err != nil || n < p.Min || n > p.Max {
				return e, fmt.Errorf("%q: give a number from %d to %d", word, p.Min, p.Max)
			}
			*p.Value, known = n, true
		}
		if !known {
			return e, fmt.Errorf("%q: give on, off, or NAME=NUMBER with commas between them; the names are %s", word, strings.Join(names, ", "))
		}
	}
	return e, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *ECN) UnmarshalText(text []byte) error {
	_, err := ParseECN(ECN(text))
	*e = ECN(text)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (e ECN) MarshalText() ([]byte, error) { return []byte(e), nil }

// ECNWord says in a word how a device answers congestion.
func ECNWord(e rxe.ECN) string {
	switch {
	case e.Off:
		return "off"
	case e == rxe.DefaultECN():
		return "on"
	}
	return "changed"
}

// ECNText writes an ECN for people, with all its parameters.
func ECNText(e rxe.ECN) string {
	if e.Off {
		return "off"
	}
	var b strings.Builder
	b.WriteString("on:")
	for _, p := range e.Params() {
		fmt.Fprintf(&b, " %s=%d%s", p.Name, *p.Value, p.Unit)
	}
	return b.String()
}
