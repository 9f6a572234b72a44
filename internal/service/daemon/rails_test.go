package daemon

import (
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestRail: a rail has a short table of GIDs.
func TestRail(t *testing.T) {
	if n := engineConfig(proto.Spec{Name: "rxe0", Rail: true}).GIDTableLen; n != railGIDs {
		t.Errorf("a rail has %d GIDs", n)
	}
}
