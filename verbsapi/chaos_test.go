package verbsapi_test

import (
	"bytes"
	"testing"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/verbstest"
)

// TestChaos exchanges messages between two devices with chaos. Data is right when its completion
// says so. With some seeds a send completes before its message does at the peer, which never
// happens without chaos.
func TestChaos(t *testing.T) {
	const n = 8192
	early := 0
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := verbstest.Connect(t, verbstest.Open(t, verbsapi.Config{Chaos: seed}),
			verbstest.Open(t, verbsapi.Config{Chaos: seed + 100}), verbstest.Config{})
		for i := range 8 {
			for j := range n {
				a.Buffer[j] = byte(int(seed) + i + j)
			}
			want := bytes.Clone(a.Buffer[:n])
			b.PostRecv(1, 0, n)
			a.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRSend, SGL: []verbsapi.SGE{a.SGE(0, n)}})
			a.Await(1)
			var wcs [1]verbsapi.WC
			k, err := b.CQ.Poll(wcs[:])
			if err != nil {
				t.Fatal(err)
			}
			if k == 0 {
				early++
				b.Await(1)
			}
			if !bytes.Equal(b.Buffer[:n], want) {
				t.Fatalf("seed %d: message %d is wrong", seed, i)
			}
			a.Post(verbsapi.SendWR{ID: 2, Op: verbsapi.WRRead, SGL: []verbsapi.SGE{a.SGE(2*n, n)},
				RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
			a.Await(2)
			if !bytes.Equal(a.Buffer[2*n:3*n], want) {
				t.Fatalf("seed %d: READ %d is wrong", seed, i)
			}
		}
	}
	if early == 0 {
		t.Error("no seed had a send complete before its message did")
	}
}
