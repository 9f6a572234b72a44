package route

import (
	"fmt"
	"testing"
	"time"
)

// TestFollow: a neighbor with another link-layer address is noticed, once for each change. Other
// news of it are not.
func TestFollow(t *testing.T) {
	a, _ := hosts(t)
	for _, dst := range []string{"10.7.0.2", "2001:db8::2"} {
		t.Run(dst, func(t *testing.T) {
			r := resolverOn(t, a)
			neighbor := func(address int, state string) {
				t.Helper()
				run(t, a, fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:%02x nud %s dev eth0", dst, address, state))
			}
			neighbor(1, "reachable")
			way, err := r.Route(Query{Dst: ip(dst)})
			if err != nil {
				t.Fatal(err)
			}
			moved := make(chan struct{}, 8)
			cancel := r.Follow(way, ip(dst), func() { moved <- struct{}{} })
			neighbor(1, "stale") // no other address
			for _, address := range []int{2, 3} {
				neighbor(address, "reachable")
				await(t, moved)
				neighbor(address, "permanent")
			}
			cancel()
			r.mu.Lock()
			left := len(r.followers)
			r.mu.Unlock()
			if left != 0 {
				t.Errorf("after cancel, %d neighbors are followed", left)
			}
			if n := len(moved); n != 0 {
				t.Errorf("%d notices too many", n)
			}
		})
	}
}

func await(t *testing.T, moved <-chan struct{}) {
	t.Helper()
	select {
	case <-moved:
	case <-time.After(timeout):
		t.Fatal("the change is not noticed")
	}
}

// TestFollowUnknown: the first address that becomes known is no change. A change whose notice
// was lost is found when the Resolver looks again.
func TestFollowUnknown(t *testing.T) {
	a, _ := hosts(t)
	r := resolverOn(t, a)
	dst := ip("10.7.0.77")
	way, err := r.Route(Query{Dst: dst})
	if err != nil {
		t.Fatal(err)
	}
	moved := make(chan struct{}, 8)
	defer r.Follow(way, dst, func() { moved <- struct{}{} })()
	at := hop{way.Interface, dst}
	run(t, a, "neigh replace 10.7.0.77 lladdr 02:00:00:00:01:01 nud permanent dev eth0")
	r.moved(at, "") // so the first address is known now, whether its notice came or not
	run(t, a, "neigh replace 10.7.0.77 lladdr 02:00:00:00:01:02 nud permanent dev eth0")
	await(t, moved)
	r.mu.Lock()
	for f := range r.followers[at] {
		f.address = "another one"
	}
	r.mu.Unlock()
	r.lookAgain()
	await(t, moved)
	if len(moved) != 0 {
		t.Error("a change is noticed twice")
	}
}

// TestFollowNot: a gateway is not followed, nor what has no link-layer address.
func TestFollowNot(t *testing.T) {
	a, _ := hosts(t)
	r := resolverOn(t, a)
	for _, way := range []Route{
		{Interface: index(t, r), NextHop: ip("10.7.0.9")},
		{Interface: index(t, r), NextHop: ip("10.7.0.2"), Direct: true},
	} {
		r.Follow(way, ip("10.7.0.2"), func() { t.Error("moved was called") })()
		if len(r.followers) != 0 {
			t.Errorf("%+v is followed", way)
		}
	}
}
