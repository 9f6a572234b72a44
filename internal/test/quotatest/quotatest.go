// Package quotatest checks budgets in tests.
package quotatest

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
)

// WantGiven waits until nothing is taken of b, and fails the test if that does not
// happen.
func WantGiven(t testing.TB, b *quota.Budget) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; b.Used() != (quota.Cost{}); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatalf("%+v is not given back", b.Used())
		}
	}
}
