package doorbell

import (
	"testing"
	"time"

	"github.com/gorxe/gorxe/internal/kernel"
)

// looks notes n looks that each found the same.
func looks(p *Pace, n int, d kernel.Doorbells) {
	for range n {
		p.Note(d)
	}
}

var (
	awaited = kernel.Doorbells{Requests: 1, Awaited: 1}
	single  = kernel.Doorbells{Requests: 1}
)

// TestPaceOfWaiting: while a program waits for each request, no look is put off.
func TestPaceOfWaiting(t *testing.T) {
	var p Pace
	for i := range 100 {
		if pause := p.Pause(); pause != 0 {
			t.Fatalf("a pause of %v after %d looks", pause, i)
		}
		p.Note(awaited)
		if want := i+1 >= sureScore; p.Awaited() != want || p.Streams() {
			t.Fatalf("after %d looks: awaited %t, streams %t", i+1, p.Awaited(), p.Streams())
		}
	}
}

// TestPaceOfStream: a stream that is found one request at a time is given a short pause now and then.
// If that finds more, the pauses grow with what they find, up to maxPause.
func TestPaceOfStream(t *testing.T) {
	var p Pace
	looks(&p, sureScore, single)
	if pause := p.Pause(); pause != tryPause {
		t.Fatalf("the first pause is %v, want %v", pause, tryPause)
	}
	for i := range tryEvery - 1 {
		p.Note(single)
		if pause := p.Pause(); pause != 0 {
			t.Fatalf("the try found nothing, and look %d is put off by %v", i, pause)
		}
	}
	p.Note(single)
	if p.Pause() != tryPause {
		t.Error("there is no second try")
	}
	for _, found := range []int{3, 10, 24, 25, 1000} {
		looks(&p, 1, kernel.Doorbells{Requests: found})
		if pause, want := p.Pause(), min(time.Duration(found)*pauseEach, maxPause); pause != want {
			t.Errorf("%d requests found, and a pause of %v; want %v", found, pause, want)
		}
	}
}

// TestPaceForgets: one look that finds a single request does not end the pauses. Many do, and so do
// looks at awaited requests.
func TestPaceForgets(t *testing.T) {
	for name, d := range map[string]kernel.Doorbells{"single": single, "awaited": awaited} {
		var p Pace
		looks(&p, maxScore, kernel.Doorbells{Requests: 100})
		p.Note(d)
		if p.Pause() != maxPause {
			t.Errorf("%s: one look ended the pauses", name)
		}
		looks(&p, 20, d)
		if pause := p.Pause(); pause > tryPause {
			t.Errorf("%s: after 20 looks the pause is %v", name, pause)
		}
	}
}

// TestPaceOfNothing: a look that found nothing says nothing.
func TestPaceOfNothing(t *testing.T) {
	var p Pace
	looks(&p, 100, kernel.Doorbells{})
	if p.Streams() || p.Awaited() || p.Pause() != 0 {
		t.Error("empty looks changed the pace")
	}
}
