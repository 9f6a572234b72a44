package rdmacm

import (
	"testing"

	"github.com/gorxe/gorxe/internal/test/leak"
)

// TestMain fails the run if a Manager or a Resolver leaves a goroutine behind.
func TestMain(m *testing.M) {
	leak.Main(m, leak.Goroutines("rdmacm.(*", "rdmacm.newSender", "route.(*", "standby.", "gsi.(*"))
}
