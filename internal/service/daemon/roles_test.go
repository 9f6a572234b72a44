package daemon

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
)

// TestRoles: errors, objects and ends carry the role that a process of the session has told, for
// itself and for those below it. An end that gorxe pair makes is marked.
func TestRoles(t *testing.T) {
	s := startTest(t, Config{}, nil)
	hello, err := s.dial(t).Hello([]string{"test"}, proto.Wanted{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := proto.DialReports([]string{s.cfg.Socket}, hello.Session)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tell := func(session uint64, role proto.Role) error {
		return proto.TellRole([]string{s.cfg.Socket}, session, role)
	}
	sessions, _ := s.visible(uint32(os.Geteuid()))
	log := &sessions[0].reports
	log.of(os.Getpid(), "rxe0").Refused("create_qp", unix.EINVAL, nil)

	log.tellRole(os.Getppid(), proto.Role{Name: proto.RoleServer})
	log.of(os.Getpid(), "rxe0").Refused("create_cq", unix.EINVAL, nil)
	if err := tell(hello.Session, proto.Role{Name: proto.RoleClient}); err != nil {
		t.Fatal(err)
	}
	log.of(os.Getpid(), "rxe0").Refused("create_srq", unix.EINVAL, nil)
	if err := tell(hello.Session, proto.Role{Name: proto.RoleClient, Stopped: true}); err != nil {
		t.Fatal(err)
	}
	status := unix.WaitStatus(unix.SIGTERM)
	log.processEnded(quota.New(endedCost(9)), os.Getpid(), &status)

	rep, err := r.Ask()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", proto.RoleServer, proto.RoleClient} {
		if got := rep.Errors.Errors[i].Role; got != want {
			t.Errorf("error %d is of %q, want %q", i, got, want)
		}
	}
	if len(rep.Ends) != 1 || rep.Ends[0].Role != proto.RoleClient || !rep.Ends[0].Stopped {
		t.Errorf("the ends are %+v", rep.Ends)
	}
	if tell(hello.Session, proto.Role{Name: "king"}) == nil || tell(hello.Session+1, proto.Role{Name: proto.RoleServer}) == nil {
		t.Error("the daemon takes any role, or any session")
	}
}
