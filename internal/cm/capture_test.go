package cm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gorxe/gorxe/rocev2/capture"
	"github.com/gorxe/gorxe/rxe"
	"github.com/gorxe/gorxe/wire"
)

// captured returns the messages of a capture between two kernels.
func captured(t *testing.T, name string) (all []wire.CMMessage) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("../../testdata/pcaps", name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := capture.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var p capture.Packet
		err := r.Next(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		pkt, err := wire.Parse(bytes.Clone(p.Transport[:max(0, len(p.Transport)-wire.ICRCLen)]))
		if err != nil || pkt.DestQP() != wire.GSIQPN {
			continue
		}
		msg, err := wire.ParseCM(pkt.Payload())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
}

// same compares a message with the kernel's, byte by byte.
func same(t *testing.T, got, want *wire.MAD) {
	t.Helper()
	if *got == *want {
		return
	}
	g, _ := wire.ParseCM(got[:])
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%v: byte %d is 0x%02x, the kernel's 0x%02x", g, i, got[i], want[i])
		}
	}
}

// setTID writes a transaction identifier.
func setTID(m *wire.MAD, tid uint64) {
	h := m.Header()
	data := bytes.Clone(m.Data())
	h.TID = tid
	m.Init(&h)
	copy(m.Data(), data)
}

// TestLikeLinux: the messages of a connection are the kernel's, byte by byte, except
// the numbers that each side draws. The kernel is Linux 6.1, whose packet lifetime is 18.
func TestLikeLinux(t *testing.T) {
	all := captured(t, "rping.pcap")
	req, rep, rtu := all[0].(wire.CMREQ), all[1].(wire.CMREP), all[2].(wire.CMRTU)
	dreq, drep := all[3].(wire.CMDREQ), all[4].(wire.CMDREP)
	client, server := newNode(t, req.CAGUID(), "10.77.0.1"), newNode(t, rep.CAGUID(), "10.77.0.2")

	path := req.PrimaryPath()
	active, err := client.m.Connect(0, &ConnectParams{
		Service: req.ServiceID(), Path: rxe.AHAttr{DGID: path.RemoteGID, FlowLabel: path.FlowLabel, HopLimit: path.HopLimit},
		SGID: path.LocalGID, QPN: req.QPN(), StartingPSN: req.StartingPSN(), PathMTU: 1024,
		ResponderResources: req.ResponderResources(), InitiatorDepth: req.InitiatorDepth(), RetryCount: req.RetryCount(),
		RNRRetryCount: req.RNRRetryCount(), FlowControl: req.FlowControl(), PacketLifetime: 18, PrivateData: req.PrivateData(),
	}, client.handler)
	client.noError(err)
	mine := wire.CMREQ{MAD: client.take(wire.AttrREQ)}
	if mine.TID()>>56 != 0 || uint32(mine.TID()) != mine.LocalCommID() {
		t.Errorf("transaction identifier 0x%016x of comm ID 0x%08x", mine.TID(), mine.LocalCommID())
	}
	clientTID := mine.TID()
	mine.SetLocalCommID(req.LocalCommID())
	setTID(mine.MAD, req.TID())
	same(t, mine.MAD, req.MAD)

	var passive *Conn
	_, err = server.m.Listen(req.ServiceID(), func(_ rxe.Time, c *Conn, r *Request) Verdict {
		server.admit(c)
		if r.PathMTU != 1024 || r.QPType != rxe.QPRC || r.RemoteGUID != req.CAGUID() || r.Path != path {
			t.Errorf("request %+v", r)
		}
		passive = c
		return take
	})
	server.noError(err)
	server.receive(client, req.MAD)
	server.noError(passive.Accept(0, &AcceptParams{
		QPN: rep.QPN(), StartingPSN: rep.StartingPSN(), ResponderResources: rep.ResponderResources(), InitiatorDepth: rep.InitiatorDepth(),
		RNRRetryCount: rep.RNRRetryCount(), FlowControl: rep.FlowControl(), SRQ: rep.SRQ(), PrivateData: rep.PrivateData(),
	}))
	gotREP := server.take(wire.AttrREP)
	fromServer := *gotREP
	theirs, err := wire.ParseCM(gotREP[:])
	server.noError(err)
	theirs.(wire.CMREP).SetCommIDs(rep.LocalCommID(), rep.RemoteCommID())
	same(t, gotREP, rep.MAD)

	answer, err := wire.ParseCM(fromServer[:])
	server.noError(err)
	answer.(wire.CMREP).SetCommIDs(passive.LocalCommID(), active.LocalCommID())
	client.receive(server, &fromServer)
	client.noError(active.Ready(0))
	gotRTU := client.take(wire.AttrRTU)
	ready, err := wire.ParseCM(gotRTU[:])
	client.noError(err)
	if ready.TID() != clientTID {
		t.Errorf("the RTU has transaction identifier 0x%016x, the REQ 0x%016x", ready.TID(), clientTID)
	}
	ready.(wire.CMRTU).SetCommIDs(rtu.LocalCommID(), rtu.RemoteCommID())
	setTID(gotRTU, rtu.TID())
	same(t, gotRTU, rtu.MAD)

	client.noError(active.Disconnect(0))
	gotDREQ := client.take(wire.AttrDREQ)
	sentDREQ := *gotDREQ
	bye, err := wire.ParseCM(gotDREQ[:])
	client.noError(err)
	bye.(wire.CMDREQ).SetCommIDs(dreq.LocalCommID(), dreq.RemoteCommID())
	setTID(gotDREQ, dreq.TID())
	same(t, gotDREQ, dreq.MAD)

	// The server knows the client by the kernel's ID.
	arriving, err := wire.ParseCM(sentDREQ[:])
	client.noError(err)
	arriving.(wire.CMDREQ).SetCommIDs(req.LocalCommID(), passive.LocalCommID())
	setTID(&sentDREQ, dreq.TID())
	passive.Destroy(0) // before an RTU: a REJ; the DREQ is then answered all the same
	server.sent = nil
	server.receive(client, &sentDREQ)
	gotDREP := server.take(wire.AttrDREP)
	end, err := wire.ParseCM(gotDREP[:])
	server.noError(err)
	end.(wire.CMDREP).SetCommIDs(drep.LocalCommID(), drep.RemoteCommID())
	same(t, gotDREP, drep.MAD)
}

// TestLookupLikeLinux is TestLikeLinux for a service ID resolution.
func TestLookupLikeLinux(t *testing.T) {
	all := captured(t, "udaddy.pcap")
	req, rep := all[0].(wire.CMSIDRREQ), all[1].(wire.CMSIDRREP)
	client, server := newNode(t, 1, "10.77.0.1"), newNode(t, 2, "10.77.0.2")
	_, err := client.m.Lookup(0, &LookupParams{
		Service: req.ServiceID(), Path: rxe.AHAttr{DGID: server.gid}, PrivateData: req.PrivateData(),
	}, client.handler)
	client.noError(err)
	mine := wire.CMSIDRREQ{MAD: client.take(wire.AttrSIDRREQ)}
	if uint32(mine.TID()) != mine.RequestID() {
		t.Errorf("transaction identifier 0x%016x of request ID 0x%08x", mine.TID(), mine.RequestID())
	}
	mine.SetRequestID(req.RequestID())
	setTID(mine.MAD, req.TID())
	same(t, mine.MAD, req.MAD)

	_, err = server.m.Listen(req.ServiceID(), func(now rxe.Time, c *Conn, r *Request) Verdict {
		server.admit(c)
		server.noError(c.Accept(now, &AcceptParams{QPN: rep.QPN(), QKey: rep.QKey(), PrivateData: rep.PrivateData()}))
		return take
	})
	server.noError(err)
	server.receive(client, req.MAD)
	same(t, server.take(wire.AttrSIDRREP), rep.MAD)
}
