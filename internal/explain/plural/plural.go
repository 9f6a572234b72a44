// Package plural writes a number with its noun: "1 packet", "2 packets".
package plural

import "fmt"

// Of returns a number with its noun. The plural of a noun ends in -s, or in -ies instead of -y.
func Of[N int | int64 | uint8 | uint32 | uint64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Noun(n, noun))
}

// Noun returns the noun for a number.
func Noun[N int | int64 | uint8 | uint32 | uint64](n N, noun string) string {
	last := len(noun) - 1
	switch {
	case n == 1:
		return noun
	case last > 0 && noun[last] == 'y':
		return noun[:last] + "ies"
	}
	return noun + "s"
}
