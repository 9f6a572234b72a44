package nldev

import (
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDevices(t *testing.T) {
	w := newWorld()
	list := items(t, ask(t, w, asking{}, request(cmdGet, unix.NLM_F_DUMP)))
	if len(list) != 2 {
		t.Fatalf("%d devices", len(list))
	}
	list = append(list, single(t, ask(t, w, asking{}, request(cmdGet, 0, dev(1)))))
	if !reflect.DeepEqual(list[1], list[2]) {
		t.Errorf("the dump has %v, the request for one %v", list[1], list[2])
	}
	for i, f := range list[:2] {
		if f.u32(t, attrDevIndex) != uint32(i) || f.str(t, attrDevName) != w.devices[i].Name || f.u32(t, attrPortIndex) != 1 ||
			f.u64(t, attrCapFlags) != 0x100000000 || f.u64(t, attrNodeGUID) != 0x0102030405060708 || f.u64(t, attrSysImageGUID) != 9 ||
			f.get(t, attrDevNodeType)[0] != 1 || f.str(t, attrDevProtocol) != "roce" || f.has(attrFWVersion) {
			t.Errorf("device %d is %+v", i, f)
		}
	}
}

func TestPorts(t *testing.T) {
	w := newWorld()
	one := single(t, ask(t, w, asking{}, request(cmdPortGet, 0, dev(1), port(1))))
	all := items(t, ask(t, w, asking{}, request(cmdPortGet, unix.NLM_F_DUMP, dev(1))))
	if len(all) != 1 || !reflect.DeepEqual(all[0], one) {
		t.Fatalf("the dump has %v, the request for one %v", all, one)
	}
	if one.str(t, attrDevName) != "rxe1" || one.u32(t, attrPortIndex) != 1 || one.get(t, attrPortState)[0] != 4 ||
		one.get(t, attrPortPhysState)[0] != 5 || one.u32(t, attrNdevIndex) != 3 || one.str(t, attrNdevName) != "eth0" {
		t.Errorf("the port is %+v", one)
	}
	w.devices[0].Port = func() Port { return Port{State: 1} }
	if f := single(t, ask(t, w, asking{}, request(cmdPortGet, 0, dev(0), port(1)))); f.has(attrNdevIndex) || f.has(attrNdevName) {
		t.Errorf("a port without interface: %+v", f)
	}
}

func TestSystem(t *testing.T) {
	f := single(t, ask(t, newWorld(), asking{}, request(cmdSysGet, 0)))
	if f.get(t, attrSysNetnsMode)[0] != 1 || f.get(t, attrSysCopyOnFork)[0] != 1 {
		t.Errorf("the system is %+v", f)
	}
}

// TestNetnsMode: an administrator changes the mode, others do not.
func TestNetnsMode(t *testing.T) {
	w := newWorld()
	for _, c := range []struct {
		admin bool
		value []byte // nil: the attribute is missing
		want  unix.Errno
		mode  byte // afterwards
	}{
		{false, []byte{0}, unix.EPERM, 1},
		{true, []byte{2}, unix.EINVAL, 1},
		{true, nil, unix.EINVAL, 1},
		{true, []byte{0}, 0, 0},
		{false, []byte{1}, unix.EPERM, 0},
		{true, []byte{1}, 0, 1},
	} {
		var put []func(*builder)
		if c.value != nil {
			put = append(put, func(m *builder) { m.bytes(attrSysNetnsMode, c.value) })
		}
		got := ask(t, w, asking{admin: c.admin}, request(cmdSysSet, unix.NLM_F_ACK, put...))
		if len(got) != 1 || errnoIn(t, got[0]) != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
		if f := single(t, ask(t, w, asking{}, request(cmdSysGet, 0))); f.get(t, attrSysNetnsMode)[0] != c.mode {
			t.Errorf("%+v: the system is %+v", c, f)
		}
	}
}

func TestChardevs(t *testing.T) {
	f := single(t, ask(t, newWorld(), asking{}, request(cmdGetChardev, 0, dev(0), str(attrChardevType, "uverbs"))))
	// huge_encode_dev(231:192)
	if f.str(t, attrChardevName) != "uverbs0" || f.u64(t, attrChardev) != 231<<8|192 || f.u64(t, attrChardevABI) != 2 || f.u32(t, attrUverbsDriverID) != 14 {
		t.Errorf("uverbs is %+v", f)
	}
	f = single(t, ask(t, newWorld(), asking{}, request(cmdGetChardev, 0, dev(0), port(1), str(attrChardevType, "umad"))))
	if f.str(t, attrChardevName) != "umad0" || f.u64(t, attrChardev) != 231<<8 || f.u64(t, attrChardevABI) != 5 {
		t.Errorf("umad is %+v", f)
	}
	f = single(t, ask(t, newWorld(), asking{}, request(cmdGetChardev, 0, str(attrChardevType, "rdma_cm"))))
	if f.str(t, attrChardevName) != "rdma_cm" || f.u64(t, attrChardev) != 10<<8|1000&0xff|1000&^0xff<<12 || f.u64(t, attrChardevABI) != 4 || f.has(attrUverbsDriverID) {
		t.Errorf("rdma_cm is %+v", f)
	}
}

// TestResources: a resource is the same in a dump and by its number. Only an administrator sees
// keys.
func TestResources(t *testing.T) {
	w := newWorld()
	for i := range kinds {
		k := &kinds[i]
		t.Run(k.name, func(t *testing.T) {
			for _, who := range []asking{{}, {admin: true}} {
				var entries []fields
				for _, msg := range items(t, ask(t, w, who, request(k.command, unix.NLM_F_DUMP, dev(0)))) {
					if msg.str(t, attrDevName) != "rxe0" {
						t.Errorf("device %s", msg.str(t, attrDevName))
					}
					for _, e := range fieldsOf(t, msg.get(t, int(k.table))) {
						if e.Attr.Type != k.entry {
							t.Fatalf("entry of type %d", e.Attr.Type)
						}
						entries = append(entries, fieldsOf(t, e.Value))
					}
				}
				if want := k.list(&w.resources); len(entries) != len(want) {
					t.Fatalf("%d entries, want %d", len(entries), len(want))
				}
				for _, e := range entries {
					put := []func(*builder){dev(0), u32(uint16(k.id), e.u32(t, k.id))}
					if k.perPort {
						put = append(put, port(1))
					}
					one := single(t, ask(t, w, who, request(k.command, 0, put...)))
					if !reflect.DeepEqual(one[2:], e) {
						t.Errorf("the dump has %v, the request for one %v", e, one[2:])
					}
					if e.u32(t, attrResPID) != 100 {
						t.Errorf("process %d", e.u32(t, attrResPID))
					}
					if k.name == "mr" && e.has(attrResRKey) != who.admin || k.name == "pd" && e.has(attrResLocalDMALKey) != who.admin {
						t.Errorf("keys: %v", e)
					}
				}
			}
			if got := items(t, ask(t, w, asking{}, request(k.command, unix.NLM_F_DUMP, dev(1)))); len(got) != 0 {
				t.Errorf("the other device has %+v", got)
			}
		})
	}
}

// TestEntries: what the entries say.
func TestEntries(t *testing.T) {
	w := newWorld()
	get := func(command int, put ...func(*builder)) fields {
		return single(t, ask(t, w, asking{admin: true}, request(command, 0, append(put, dev(0))...)))
	}
	if f := get(cmdResQPGet, port(1), u32(attrResLQPN, 17)); f.u32(t, attrResRQPN) != 18 || f.u32(t, attrResRQPSN) != 5 ||
		f.u32(t, attrResSQPSN) != 6 || f.get(t, attrResType)[0] != 2 || f.get(t, attrResState)[0] != 3 || f.u32(t, attrResPDN) != 1 {
		t.Errorf("RC queue pair: %+v", f)
	}
	if f := get(cmdResQPGet, port(1), u32(attrResLQPN, 19)); f.has(attrResRQPN) || f.has(attrResPathMigState) {
		t.Errorf("UD queue pair: %+v", f)
	}
	if f := get(cmdResCQGet, u32(attrResCQN, 2)); f.u32(t, attrResCQE) != 63 || f.u64(t, attrResUseCnt) != 2 || f.u32(t, attrResCtxN) != 1 {
		t.Errorf("completion queue: %+v", f)
	}
	if f := get(cmdResMRGet, u32(attrResMRN, 3)); f.u32(t, attrResRKey) != 0x1234 || f.u32(t, attrResLKey) != 0x5678 || f.u64(t, attrResMRLen) != 4096 {
		t.Errorf("memory region: %+v", f)
	}
	if f := get(cmdResCMIDGet, port(1), u32(attrResCMIDN, 7)); f.u32(t, attrResPS) != 0x106 || f.get(t, attrResState)[0] != 10 ||
		len(f.get(t, attrResSrcAddr)) != 128 || f.has(attrResDstAddr) || f.u32(t, attrResLQPN) != 17 {
		t.Errorf("id: %+v", f)
	}
	ranges := fieldsOf(t, get(cmdResSRQGet, u32(attrResSRQN, 4)).get(t, attrResQP))
	if len(ranges) != 2 {
		t.Fatalf("%d ranges", len(ranges))
	}
	first, second := fieldsOf(t, ranges[0].Value), fieldsOf(t, ranges[1].Value)
	if first.u32(t, attrMinRange) != 17 || first.u32(t, attrMaxRange) != 19 || second.u32(t, attrResLQPN) != 25 {
		t.Errorf("queue pairs of the SRQ: %+v, %+v", first, second)
	}
}

func TestSummary(t *testing.T) {
	w := newWorld()
	want := map[string]uint64{"pd": 1, "cq": 1, "qp": 2, "cm_id": 1, "mr": 1, "ctx": 1, "srq": 1}
	one := single(t, ask(t, w, asking{}, request(cmdResGet, 0, dev(0))))
	all := items(t, ask(t, w, asking{}, request(cmdResGet, unix.NLM_F_DUMP)))
	if len(all) != 2 || !reflect.DeepEqual(one, all[0]) {
		t.Fatalf("the dump has %v, the request for one %v", all, one)
	}
	got := make(map[string]uint64)
	for _, e := range fieldsOf(t, one.get(t, attrResSummary)) {
		f := fieldsOf(t, e.Value)
		got[f.str(t, attrResSummaryEntryName)] = f.u64(t, attrResSummaryEntryCurr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the summary is %v, want %v", got, want)
	}
}

// TestLongDump: a dump of many resources has each once, in datagrams that readers have room
// for (checked by ask).
func TestLongDump(t *testing.T) {
	w := newWorld()
	w.resources.QPs = nil
	const n = 1000
	for i := range uint32(n) {
		w.resources.QPs = append(w.resources.QPs, QP{Num: i + 2, Connected: i%2 == 0, PID: 1})
	}
	next := uint32(2)
	for _, msg := range items(t, ask(t, w, asking{}, request(cmdResQPGet, unix.NLM_F_DUMP, dev(0)))) {
		for _, e := range fieldsOf(t, msg.get(t, attrResQP)) {
			if got := fieldsOf(t, e.Value).u32(t, attrResLQPN); got != next {
				t.Fatalf("queue pair %d, want %d", got, next)
			}
			next++
		}
	}
	if next != n+2 {
		t.Errorf("%d queue pairs", next-2)
	}
}

func TestStatistics(t *testing.T) {
	w := newWorld()
	f := single(t, ask(t, w, asking{}, request(cmdStatGet, 0, dev(0), port(1))))
	got := make(map[string]uint64)
	for _, e := range fieldsOf(t, f.get(t, attrStatHWCounters)) {
		c := fieldsOf(t, e.Value)
		got[c.str(t, attrStatHWCounterName)] = c.u64(t, attrStatHWCounterValue)
	}
	if want := map[string]uint64{"sent_pkts": 12, "rcvd_pkts": 1 << 40}; !reflect.DeepEqual(got, want) {
		t.Errorf("the counters are %v, want %v", got, want)
	}
	if f := single(t, ask(t, w, asking{}, request(cmdStatGet, 0, dev(0), port(1), u32(attrStatRes, attrResQP)))); f.u32(t, attrStatMode) != 0 {
		t.Errorf("the mode is %+v", f)
	}
	for _, res := range []uint32{attrResQP, attrResMR} {
		if list := items(t, ask(t, w, asking{}, request(cmdStatGet, unix.NLM_F_DUMP, dev(0), u32(attrStatRes, res)))); len(list) != 0 {
			t.Errorf("counters of resources: %+v", list)
		}
	}
	f = single(t, ask(t, w, asking{}, request(cmdStatGetStatus, 0, dev(0), port(1))))
	for i, e := range fieldsOf(t, f.get(t, attrStatHWCounters)) {
		if c := fieldsOf(t, e.Value); c.u32(t, attrStatHWCounterIndex) != uint32(i) {
			t.Errorf("counter %d is %+v", i, c)
		}
	}
}
