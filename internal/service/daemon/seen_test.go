package daemon

import (
	"reflect"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestSeen: without a daemon, with one, and in the tree that programs get, the devices have
// the same attributes.
func TestSeen(t *testing.T) {
	specs := []proto.Spec{testSpec("rxe0"), testSpec("rxe1"), testSpec("mlx5_0")}
	specs[1].Speed = 100000
	specs[2].Like = "connectx7-400g"
	before, err := SeenOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	s := startTest(t, Config{Devices: specs}, nil)
	got, err := s.dial(t).Seen()
	if err != nil {
		t.Fatal(err)
	}
	if want := s.tree.Seen(); len(want) != 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("the daemon says\n%+v\nthe tree has\n%+v", got, want)
	}
	if !reflect.DeepEqual(got, before) {
		t.Errorf("the daemon says\n%+v\nwithout a daemon\n%+v", got, before)
	}
	// The devices of a running daemon can still be described.
	if again, err := SeenOf(specs); err != nil || !reflect.DeepEqual(again, before) {
		t.Errorf("beside the daemon: %+v, %v", again, err)
	}
}
