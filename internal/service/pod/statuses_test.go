package pod

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/test/must"
)

// Statuses has the containers that live, whose programs ran, and the name of the first one also
// after its end.
func TestStatuses(t *testing.T) {
	h := newHouse(t)
	place := func(name string) proto.Place {
		return proto.Place{Namespace: "default", Pod: t.Name(), Container: name}
	}
	only := func() proto.PodStatus {
		t.Helper()
		list, errs := Statuses(h.dir)
		if len(list) != 1 || errs != nil {
			t.Fatalf("%+v, %v", list, errs)
		}
		return list[0]
	}
	if list, errs := Statuses(h.dir); list != nil || errs != nil {
		t.Errorf("without daemons: %v, %v", list, errs)
	}
	must.OK(t, h.create("a").Join(h.dir, "/proc/self/exe"))
	if st := only(); st.Place != place("a") || !slices.Equal(st.Containers, []proto.Place{place("a")}) || st.Status != nil {
		t.Errorf("before a program: %+v", st)
	}
	must.OK(t, h.create("b").Join(h.dir, "/proc/self/exe"))
	daemon := h.ask("b").PID
	h.end("a")
	must.Eventually(t, "a is gone", func() bool { return len(only().Containers) == 1 })
	st := only()
	if st.Place != place("a") || st.Containers[0] != place("b") || st.Status == nil || st.Status.PID != daemon ||
		len(st.Status.Sessions) != 1 || st.Status.Sessions[0].Place != place("b") {
		t.Errorf("%+v", st)
	}
}

// A socket without a daemon is none, and one that belongs to another program is an error.
func TestStatusesOfOthers(t *testing.T) {
	dir := t.TempDir()
	dead := must.Get[*os.File](t)(listenAt(filepath.Join(dir, "gorxe-containers-1-1.sock"), 0o600))
	dead.Close()
	must.OK(t, os.WriteFile(filepath.Join(dir, "gorxe-containers-1-2.sock"), nil, 0o600))
	if list, errs := Statuses(dir); list != nil || errs != nil {
		t.Errorf("%v, %v", list, errs)
	}
	strange := must.Get[*os.File](t)(listenAt(filepath.Join(dir, "gorxe-containers-1-3.sock"), 0o600))
	defer strange.Close()
	answers := make(chan error, 1)
	go func() {
		ln, err := listener(strange)
		if err != nil {
			answers <- err
			return
		}
		defer ln.Close() //nolint:errcheck // nothing is buffered in it
		sock, err := ln.AcceptUnix()
		if err == nil {
			conn := &proto.Conn{Sock: sock}
			if err = conn.RecvOnly(new(question)); err == nil {
				err = conn.Send(proto.Reply{Version: proto.ProtocolVersion, Error: "I do not know"})
			}
			conn.Close()
		}
		answers <- err
	}()
	list, errs := Statuses(dir)
	must.OK(t, <-answers)
	if list != nil || len(errs) != 1 {
		t.Errorf("a daemon that refuses: %v, %v", list, errs)
	}
}
