// Package must ends a test when something that it needs fails.
package must

import (
	"testing"
	"time"
)

// Get takes the results of a call, as in must.Get[int](t)(strconv.Atoi(s)). It returns
// the value, or ends the test if there is an error.
func Get[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Limit only ends a test that would otherwise hang. A busy machine is many times slower than an
// idle one.
const Limit = 2 * time.Minute

// Eventually waits until something holds that another thread or process brings about, and that
// tells nobody. It ends the test if that never happens.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := 10 * time.Microsecond
	for end := time.Now().Add(Limit); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		pause = min(2*pause, time.Millisecond)
	}
}
