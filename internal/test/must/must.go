// Package must ends a test when something that it needs fails.
package must

import "testing"

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
