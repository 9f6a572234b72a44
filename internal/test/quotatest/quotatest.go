// Package quotatest checks budgets in tests.
package quotatest

import (
	"testing"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/test/must"
)

// WantGiven waits until nothing is taken of b, and fails the test if that does not
// happen.
func WantGiven(t testing.TB, b *quota.Budget) {
	t.Helper()
	must.Eventually(t, "what was taken of the budget is given back", func() bool { return b.Used() == quota.Cost{} })
}
