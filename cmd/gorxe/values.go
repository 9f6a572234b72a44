package main

import (
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// plainValues reads numbers, durations and addresses. The parser's own readers print what Go's
// libraries say of a wrong value, which names functions of Go.
func plainValues() kong.Option {
	options := []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), value(func(text string, target reflect.Value) error {
			d, err := time.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("%q is not a duration: give a number and a unit, as 500ms, 2s or 1m30s", text)
			}
			target.SetInt(int64(d))
			return nil
		})),
		kong.TypeMapper(reflect.TypeFor[netip.Addr](), value(func(text string, target reflect.Value) error {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return fmt.Errorf("%q is not an IP address: give one as 192.0.2.1 or fd00::1", text)
			}
			target.Set(reflect.ValueOf(a))
			return nil
		})),
	}
	for _, kind := range []reflect.Kind{reflect.Int, reflect.Int64} {
		options = append(options, kong.KindMapper(kind, value(func(text string, target reflect.Value) error {
			n, err := strconv.ParseInt(text, 0, target.Type().Bits())
			if err != nil {
				return notNumber(text, math.MaxUint64>>1)
			}
			target.SetInt(n)
			return nil
		})))
	}
	for _, kind := range []reflect.Kind{reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64} {
		options = append(options, kong.KindMapper(kind, value(func(text string, target reflect.Value) error {
			n, err := strconv.ParseUint(text, 0, target.Type().Bits())
			if err != nil {
				return notNumber(text, math.MaxUint64>>(64-target.Type().Bits()))
			}
			target.SetUint(n)
			return nil
		})))
	}
	return kong.OptionFunc(func(k *kong.Kong) error {
		for _, o := range options {
			if err := o.Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

func notNumber(text string, most uint64) error {
	return fmt.Errorf("%q is not a whole number of at most %d", text, most)
}

// value is a reader of one word.
type value func(text string, target reflect.Value) error

// Decode implements kong.Mapper.
func (read value) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto(ctx.Value.Name, &text); err != nil {
		return err
	}
	return read(text, target)
}
