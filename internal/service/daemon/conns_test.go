package daemon

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
)

// The daemon of a network namespace's containers has no socket of its own. Its users are those of
// containers, also if they have a range of one person's ids, and none of them owns it. It takes a
// session after the last one has ended, and says who chose the devices.
func TestConns(t *testing.T) {
	conns := make(chan proto.Arrival)
	place := proto.Place{Namespace: "default", Pod: "web", Container: "server"}
	root := fstest.MapFS{"etc/subuid": {Data: []byte("dockremap:100000:65536\n")}, "etc/passwd": {Data: []byte("dockremap:x:999:999::/:/bin/false\n")}}
	s := startTest(t, Config{Conns: conns, Socket: "/.gorxe/run/socket", root: root}, nil)
	connect := func() *proto.Client {
		ours, theirs, err := proto.Pair()
		must.OK(t, err)
		conn := must.Get[*proto.Conn](t)(proto.NewConn(theirs))
		conns <- proto.Arrival{Sock: conn.Sock, Place: place}
		c := must.Get[*proto.Client](t)(proto.Inherit(ours))
		t.Cleanup(c.Close)
		return c
	}
	for range 2 {
		c := connect()
		hello := must.Get[proto.Hello](t)(c.Hello([]string{"program"}, proto.Wanted{}))
		if hello.Private || hello.PID != os.Getpid() {
			t.Errorf("%+v", hello)
		}
		// The host's root sees whose session it is, and root of a container sees its own only.
		if st := s.Status(); len(st.Sessions) != 1 || st.Sessions[0].Place != place || st.Devices[0].Packets == nil {
			t.Errorf("the host sees %+v", st)
		}
		if st := s.status(uint32(os.Geteuid() + 1)); len(st.Sessions) != 0 || st.Hidden != 1 || st.Devices[0].Packets != nil {
			t.Errorf("another user sees %+v", st)
		}
		c.Close()
		must.Eventually(t, "the session has ended", func() bool { return s.tenants.Len() == 0 })
	}
	for _, uid := range []uint32{100000, 101000} {
		if u := s.tenants.Of(uid); u.UID != uid {
			t.Errorf("user %d counts as user %d", uid, u.UID)
		}
	}
	if s.owns(0) || s.owns(uint32(os.Geteuid())) {
		t.Error("root of one container owns the daemon of all")
	}
	_, err := connect().Hello([]string{"program"}, proto.Wanted{Devices: []proto.Spec{testSpec("rxe7")}})
	if err == nil || !strings.Contains(err.Error(), "GORXE_DEVICES") || strings.Contains(err.Error(), "--private") {
		t.Error(err)
	}
}
