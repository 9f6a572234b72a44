package script

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"
)

// args are what follows the name of a command.
type args struct {
	words   []string          // without a value, in order
	options map[string]string // with one
}

func readArgs(list []datadriven.CmdArg) (*args, error) {
	a := &args{options: make(map[string]string)}
	for _, arg := range list {
		switch len(arg.Vals) {
		case 0:
			a.words = append(a.words, arg.Key)
		case 1:
			a.options[arg.Key] = arg.Vals[0]
		default:
			return nil, fmt.Errorf("%s has several values", arg.Key)
		}
	}
	return a, nil
}

// word takes the next word if it is one of the choices, or else returns the first of them.
func (a *args) word(choices ...string) string {
	if len(a.words) > 0 && slices.Contains(choices, a.words[0]) {
		w := a.words[0]
		a.words = a.words[1:]
		return w
	}
	return choices[0]
}

// flag takes a word wherever it is.
func (a *args) flag(name string) bool {
	i := slices.Index(a.words, name)
	if i >= 0 {
		a.words = slices.Delete(a.words, i, i+1)
	}
	return i >= 0
}

// number takes the next word if it is a number.
func (a *args) number(otherwise int) int {
	if len(a.words) > 0 {
		if n, err := strconv.Atoi(a.words[0]); err == nil {
			a.words = a.words[1:]
			return n
		}
	}
	return otherwise
}

// option takes an option.
func (a *args) option(name, otherwise string) string {
	v, ok := a.options[name]
	if !ok {
		return otherwise
	}
	delete(a.options, name)
	return v
}

// bounded takes an option that is a number from 0 to most.
func (a *args) bounded(name string, otherwise, most uint64) (uint64, error) {
	v, ok := a.options[name]
	if !ok {
		return otherwise, nil
	}
	delete(a.options, name)
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s=%s: give a number from 0 to %d", name, v, most)
	}
	return n, nil
}

// duration takes the next word as a time.
func (a *args) duration() (time.Duration, error) {
	if len(a.words) == 0 {
		return 0, fmt.Errorf("give a duration, as 10ms")
	}
	d, err := time.ParseDuration(a.words[0])
	if err != nil || d < 0 || d > time.Hour {
		return 0, fmt.Errorf("%s: give a duration from 0 to 1h, as 10ms", a.words[0])
	}
	a.words = a.words[1:]
	return d, nil
}

// rest returns an error if something was not taken.
func (a *args) rest() error {
	for name := range a.options {
		return fmt.Errorf("there is no option %s", name)
	}
	if len(a.words) > 0 {
		return fmt.Errorf("what is %s?", a.words[0])
	}
	return nil
}
