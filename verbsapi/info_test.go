package verbsapi

import (
	"errors"
	"testing"
)

// TestInfoWithoutGID: what a peer is told has a GID, or there is an error.
func TestInfoWithoutGID(t *testing.T) {
	e := newEnd(t, openTest(t, Config{}), endConfig{typ: QPRC, depth: 4, bufSize: 4096})
	if info, err := e.qp.Info(1, 0); err != nil || info.GID.IsZero() {
		t.Errorf("%+v, %v", info, err)
	}
	for _, index := range []int{-1, 99, 255, 1 << 20} {
		if info, err := e.qp.Info(1, index); !errors.Is(err, ErrInvalid) || info != (Info{}) {
			t.Errorf("index %d: %+v, %v, want ErrInvalid", index, info, err)
		}
	}
}
