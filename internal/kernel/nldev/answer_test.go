package nldev

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/kernel"
)

// TestNumbers: the numbers are those of another program.
func TestNumbers(t *testing.T) {
	for _, tt := range [][2]int{
		{clientNLDEV, nl.RDMA_NL_NLDEV}, {clientShift, nl.RDMA_NL_GET_CLIENT_SHIFT},
		{cmdGet, nl.RDMA_NLDEV_CMD_GET}, {cmdSet, nl.RDMA_NLDEV_CMD_SET}, {cmdNewLink, nl.RDMA_NLDEV_CMD_NEWLINK},
		{cmdDelLink, nl.RDMA_NLDEV_CMD_DELLINK}, {cmdSysGet, nl.RDMA_NLDEV_CMD_SYS_GET}, {cmdSysSet, nl.RDMA_NLDEV_CMD_SYS_SET},
		{cmdResGet, nl.RDMA_NLDEV_CMD_RES_GET}, {cmdStatGet, nl.RDMA_NLDEV_CMD_STAT_GET},
		{attrDevIndex, nl.RDMA_NLDEV_ATTR_DEV_INDEX}, {attrDevNodeType, nl.RDMA_NLDEV_ATTR_DEV_NODE_TYPE},
		{attrResSummaryEntryCurr, nl.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR}, {attrNdevName, nl.RDMA_NLDEV_ATTR_NDEV_NAME},
		{attrLinkType, nl.RDMA_NLDEV_ATTR_LINK_TYPE}, {attrSysNetnsMode, nl.RDMA_NLDEV_SYS_ATTR_NETNS_MODE},
		{attrNetNSFD, nl.RDMA_NLDEV_NET_NS_FD}, {attrStatHWCounters, nl.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS},
		{attrStatHWCounterValue, nl.RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE},
	} {
		if tt[0] != tt[1] {
			t.Errorf("%d, want %d", tt[0], tt[1])
		}
	}
}

// TestErrors: requests that fail, with the errno of the kernel.
func TestErrors(t *testing.T) {
	const dump = unix.NLM_F_DUMP
	for name, tt := range map[string]struct {
		who  asking
		data []byte
		want unix.Errno
	}{
		"unknown command":          {data: request(8, 0), want: unix.EINVAL},
		"command out of the table": {data: request(500, 0), want: unix.EINVAL},
		"another client":           {data: begin(nil, 2<<clientShift, unix.NLM_F_REQUEST, testSeq, 0).end(), want: unix.EINVAL},
		"set":                      {data: request(cmdSet, 0, dev(0)), want: unix.EPERM},
		"set as administrator":     {who: asking{admin: true}, data: request(cmdSet, 0, dev(0)), want: unix.EOPNOTSUPP},
		"new link":                 {data: request(cmdNewLink, 0), want: unix.EPERM},
		"raw":                      {data: request(cmdResQPGetRaw, dump, dev(0)), want: unix.EPERM},
		"no device":                {data: request(cmdGet, 0), want: unix.EINVAL},
		"unknown device":           {data: request(cmdGet, 0, dev(2)), want: unix.EINVAL},
		"no port":                  {data: request(cmdPortGet, 0, dev(0)), want: unix.EINVAL},
		"port 0":                   {data: request(cmdPortGet, 0, dev(0), port(0)), want: unix.EINVAL},
		"port 2":                   {data: request(cmdPortGet, 0, dev(0), port(2)), want: unix.EINVAL},
		"no dump of the system":    {data: request(cmdSysGet, dump), want: unix.EINVAL},
		"no type of chardev":       {data: request(cmdGetChardev, 0, dev(0)), want: unix.EINVAL},
		"unknown type of chardev":  {data: request(cmdGetChardev, 0, dev(0), str(attrChardevType, "issm")), want: unix.EOPNOTSUPP},
		"umad of no port":          {data: request(cmdGetChardev, 0, dev(0), str(attrChardevType, "umad")), want: unix.EINVAL},
		"uverbs of no device":      {data: request(cmdGetChardev, 0, str(attrChardevType, "uverbs")), want: unix.EOPNOTSUPP},
		"chardev of a bad device":  {data: request(cmdGetChardev, 0, dev(5), str(attrChardevType, "uverbs")), want: unix.EINVAL},
		"port without device":      {data: request(cmdGetChardev, 0, port(1), str(attrChardevType, "rdma_cm")), want: unix.EINVAL},
		"qp without number":        {data: request(cmdResQPGet, 0, dev(0), port(1)), want: unix.EINVAL},
		"qp without port":          {data: request(cmdResQPGet, 0, dev(0), u32(attrResLQPN, 17)), want: unix.EINVAL},
		"pd with port":             {data: request(cmdResPDGet, 0, dev(0), port(1), u32(attrResPDN, 1)), want: unix.EINVAL},
		"unknown qp":               {data: request(cmdResQPGet, 0, dev(0), port(1), u32(attrResLQPN, 99)), want: unix.ENOENT},
		"unknown pd":               {data: request(cmdResPDGet, 0, dev(0), u32(attrResPDN, 99)), want: unix.ENOENT},
		"statistic without port":   {data: request(cmdStatGet, 0, dev(0)), want: unix.EINVAL},
		"statistic of a pd":        {data: request(cmdStatGet, 0, dev(0), port(1), u32(attrStatRes, attrResPD)), want: unix.EINVAL},
		"statistic of a region":    {data: request(cmdStatGet, 0, dev(0), u32(attrStatRes, attrResMR)), want: unix.EOPNOTSUPP},
		"unknown counter":          {data: request(cmdStatGet, 0, dev(0), port(1), u32(attrStatRes, attrResQP), u32(attrStatCounterID, 1)), want: unix.ENOENT},
		"short attribute":          {data: request(cmdGet, 0, func(m *builder) { m.bytes(attrDevIndex, []byte{0, 0}) }), want: unix.EINVAL},
		"text without a zero":      {data: request(cmdGet, 0, dev(0), func(m *builder) { m.bytes(attrDevName, []byte("rxe0")) }), want: unix.EINVAL},
		"while another dump waits": {who: asking{dumping: true}, data: request(cmdGet, dump), want: unix.EBUSY},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, newWorld(), tt.who, tt.data)
			if len(got) != 1 || got[0].Header.Type != unix.NLMSG_ERROR || errnoIn(t, got[0]) != tt.want {
				t.Errorf("the answer is %+v, want %v", got, tt.want)
			}
		})
	}
	for name, data := range map[string][]byte{
		"ports of no device":      request(cmdPortGet, dump),
		"resources of no device":  request(cmdResQPGet, dump),
		"resources of a bad port": request(cmdResQPGet, dump, dev(0), port(3)),
		"statistics of nothing":   request(cmdStatGet, dump, dev(0)),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, newWorld(), asking{}, data)
			if len(got) != 1 || got[0].Header.Type != unix.NLMSG_DONE || errnoIn(t, got[0]) != unix.EINVAL {
				t.Errorf("the dump is %+v", got)
			}
		})
	}
}

// TestUnanswered: what is no request, and what cannot be read.
func TestUnanswered(t *testing.T) {
	whole := request(cmdGet, 0, dev(0))
	for n := range whole {
		if got := ask(t, newWorld(), asking{}, whole[:n]); len(got) != 0 {
			t.Errorf("%d of %d bytes: %+v", n, len(whole), got)
		}
	}
	noRequest := bytes.Clone(whole)
	binary.NativeEndian.PutUint16(noRequest[6:], 0)
	control := request(0, 0)
	binary.NativeEndian.PutUint16(control[4:], unix.NLMSG_NOOP)
	for _, data := range [][]byte{noRequest, control} {
		if got := ask(t, newWorld(), asking{}, data); len(got) != 0 {
			t.Errorf("%x: %+v", data, got)
		}
	}
}

// TestSeveral: a program sends several messages at once. Each has its answer.
func TestSeveral(t *testing.T) {
	data := append(request(cmdGet, unix.NLM_F_ACK, dev(1)), request(cmdSet, 0)...)
	data = append(data, request(cmdGet, unix.NLM_F_DUMP)...)
	data = append(data, request(cmdGet, unix.NLM_F_DUMP)...)
	got := ask(t, newWorld(), asking{}, data)
	if len(got) != 7 {
		t.Fatalf("%d messages: %+v", len(got), got)
	}
	if name := fieldsOf(t, got[0].Data).str(t, attrDevName); name != "rxe1" {
		t.Errorf("device %s", name)
	}
	for i, want := range map[int]unix.Errno{1: 0, 2: unix.EPERM, 5: 0, 6: unix.EBUSY} {
		if e := errnoIn(t, got[i]); e != want {
			t.Errorf("message %d has %v, want %v", i, e, want)
		}
	}
}

// TestAcks: an error quotes the request, unless the socket has NETLINK_CAP_ACK. With
// NETLINK_EXT_ACK it names the attribute that is wrong.
func TestAcks(t *testing.T) {
	bad := request(cmdGet, 0, dev(0), func(m *builder) { m.bytes(attrPortIndex, []byte{1}) })
	const attrs = unix.SizeofNlMsghdr + 4
	for _, tt := range []struct {
		who   asking
		flags uint16
		size  int
	}{
		{asking{}, 0, len(bad)},
		{asking{capAck: true}, unix.NLM_F_CAPPED, unix.SizeofNlMsghdr},
		{asking{extAck: true}, unix.NLM_F_ACK_TLVS, len(bad)},
		{asking{capAck: true, extAck: true}, unix.NLM_F_CAPPED | unix.NLM_F_ACK_TLVS, unix.SizeofNlMsghdr},
	} {
		got := ask(t, newWorld(), tt.who, bad)
		if len(got) != 1 || errnoIn(t, got[0]) != unix.EINVAL || got[0].Header.Flags != tt.flags {
			t.Fatalf("%+v: %+v", tt.who, got)
		}
		rest := got[0].Data[4:]
		if len(rest) < tt.size || !bytes.Equal(rest[:tt.size], bad[:tt.size]) {
			t.Errorf("%+v: it quotes %x", tt.who, rest)
		}
		rest = rest[align(tt.size):]
		if !tt.who.extAck {
			if len(rest) != 0 {
				t.Errorf("%+v: %x behind the request", tt.who, rest)
			}
			continue
		}
		if f := fieldsOf(t, rest); f.str(t, errAttrMsg) == "" || f.u32(t, errAttrOffset) != unix.SizeofNlMsghdr+8 {
			t.Errorf("%+v: %+v", tt.who, f)
		}
	}
	got := ask(t, newWorld(), asking{extAck: true}, request(cmdGet, unix.NLM_F_ACK, dev(0)))
	if len(got) != 2 || errnoIn(t, got[1]) != 0 || len(got[1].Data) != attrs || got[1].Header.Flags != unix.NLM_F_CAPPED {
		t.Errorf("the acknowledgement is %+v", got)
	}
}

// FuzzAnswer: whatever a program sends, the answers are messages, and there are not more than
// a few for each request.
func FuzzAnswer(f *testing.F) {
	for i := range numCommands {
		f.Add(request(i, 0, dev(0), port(1)), true)
		f.Add(request(i, unix.NLM_F_DUMP, dev(0)), false)
	}
	f.Add(request(cmdResQPGet, 0, dev(0), port(1), u32(attrResLQPN, 17)), false)
	f.Add(request(cmdResGet, 0, func(m *builder) {
		at := m.nest(attrResSummary)
		m.u32(attrDevIndex, 0)
		m.endNest(at)
	}), true)
	w := newWorld()
	f.Fuzz(func(t *testing.T, data []byte, on bool) {
		n := 0
		req := &kernel.NetlinkRequest{Data: data, Port: testPort, CapAck: on, ExtAck: on}
		Answer(w, Caller{NetAdmin: func() bool { return on }}, req, func(datagram []byte, dump bool) {
			n++
			for rest := datagram; len(rest) > 0; {
				m, after, ok := nextMessage(rest)
				if !ok || m.typ() == unix.NLMSG_ERROR && dump {
					t.Fatalf("datagram %x", datagram)
				}
				rest = after
			}
		})
		if limit := 2*(len(data)/unix.SizeofNlMsghdr) + 8; n > limit {
			t.Errorf("%d datagrams for %d bytes", n, len(data))
		}
	})
}

// TestNewLinkHint: the refusal of rdma link add says what takes its place.
func TestNewLinkHint(t *testing.T) {
	data := request(cmdNewLink, 0)
	for _, extAck := range []bool{false, true} {
		got := ask(t, newWorld(), asking{admin: true, capAck: true, extAck: extAck}, data)
		if len(got) != 1 || errnoIn(t, got[0]) != unix.EOPNOTSUPP {
			t.Fatalf("%+v", got)
		}
		if said := bytes.Contains(got[0].Data, []byte("gorxe run --device rxe0=eth0")); said != extAck {
			t.Errorf("%q, with a text: %v", got[0].Data, extAck)
		}
	}
}
