package read

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rocev2/conformance"
)

const (
	captures = "../../../testdata/pcaps/"
	damaged  = captures + "netem_corrupt2.pcap"
)

// TestProgress: a file that takes long shows on a terminal how much of it was read,
// and the line is removed afterwards.
func TestProgress(t *testing.T) {
	var screen bytes.Buffer
	p := NewProgress(&screen)
	f, err := Open(t.Context(), damaged, p)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.next = p.began // as if reading had taken long
	half := make([]byte, p.size/2)
	if _, err := io.ReadFull(f, half); err != nil {
		t.Fatal(err)
	}
	if bar := "[" + strings.Repeat("#", 15) + strings.Repeat(".", 15) + "]"; !strings.Contains(screen.String(), bar) {
		t.Errorf("%q has no %q", screen.String(), bar)
	}
	screen.Reset()
	p.Clear()
	if got := screen.String(); got != "\r\x1b[K" {
		t.Errorf("cleared with %q", got)
	}
}

// TestCheck: every packet is visited and counted, and an error of visit ends the
// capture with a report on what came before.
func TestCheck(t *testing.T) {
	errEnough := errors.New("enough")
	for _, stop := range []int{0, 10} {
		p := NewProgress(io.Discard)
		f, err := Open(t.Context(), captures+"rping.pcap", p)
		if err != nil {
			t.Fatal(err)
		}
		visited := 0
		r, err := f.Check(conformance.Options{}, func(*capture.Packet, *conformance.Verdict) error {
			if visited++; visited == stop {
				return errEnough
			}
			return nil
		})
		want, wantErr := 65, error(nil)
		if stop > 0 {
			want, wantErr = stop, errEnough
		}
		if !errors.Is(err, wantErr) || visited != want || r.Packets != uint64(want) || p.packets != int64(want) {
			t.Errorf("%d visited, %d counted, %+v, %v, want %d and %v", visited, p.packets, r, err, want, wantErr)
		}
		if f.Title != "rping.pcap" {
			t.Errorf("title %q", f.Title)
		}
		f.Close()
	}
}

// TestContext: reading ends with the context.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, err := Open(ctx, damaged, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if _, err := f.Check(conformance.Options{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
