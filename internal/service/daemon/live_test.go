package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
)

// TestLive: the owner of a daemon gets a capture, until it has enough or the daemon ends. A
// stranger and one client too many get none. Nothing of a capture is left behind.
func TestLive(t *testing.T) {
	s := startTest(t, Config{}, nil)
	device := s.devices[0].engine
	if device.Tapped() {
		t.Fatal("the device is captured before anybody asks")
	}
	paths := []string{s.cfg.Socket}
	var all []*proto.Live
	for range maxFollowers {
		all = append(all, must.Get[*proto.Live](t)(proto.DialLive(paths)))
	}
	if _, err := proto.DialLive(paths); err == nil || !strings.Contains(err.Error(), "other programs capture") {
		t.Errorf("one client too many: %v", err)
	}
	if !device.Tapped() {
		t.Error("the device is not captured")
	}
	ours, theirs := connPair(t)
	defer ours.Close()
	defer theirs.Close()
	const stranger = 4711
	go s.liveTalk(theirs, stranger, nil)
	var r proto.Reply
	must.OK(t, ours.RecvOnly(&r))
	if !strings.Contains(r.Error, "only root and the user of the daemon") {
		t.Errorf("a stranger: %+v", r)
	}
	for _, l := range all {
		l.Close()
	}
	must.Eventually(t, "the device is not captured any more", func() bool { return !device.Tapped() })
	all[0] = must.Get[*proto.Live](t)(proto.DialLive(paths))
	defer all[0].Close()
	var text bytes.Buffer
	ended := make(chan error)
	go func() { ended <- all[0].CopyTo(&text) }()
	must.OK(t, s.stop())
	if err := <-ended; err != nil || !bytes.HasPrefix(text.Bytes(), []byte("\x0a\x0d\x0d\x0a")) {
		t.Errorf("the capture of a daemon that ends: %v, %d bytes", err, text.Len())
	}
}
