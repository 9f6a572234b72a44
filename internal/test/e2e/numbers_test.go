package e2e

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// fact is what one place says: of rxe0, the GUID is so.
type fact struct{ Device, What, Place, Is string }

// TestNumbersAgree: netlink, sysfs, fstat and RDMA CM name each device by the same index, GUID
// and device numbers. librdmacm matches devices by index and GUID, and libibverbs compares the
// device number of what it opens.
func TestNumbersAgree(t *testing.T) {
	if native != "" || !selection.takes(core) {
		return
	}
	a, _ := twoHosts(t, 1500)
	a.ip(t, "addr add 10.88.0.77/24 dev eth0")
	d := startDaemon(t, a, "--device", "rxe0=10.88.0.1", "--device", "rxe1=10.88.0.77")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := d.run(t, "env", roleEnv+"=numbers", exe, "10.88.0.1", "10.88.0.77").ok()
	var facts []fact
	if err := json.Unmarshal([]byte(out), &facts); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := make(map[string]fact)
	places := make(map[string]int)
	for _, f := range facts {
		key := f.Device + " " + f.What
		if other, ok := seen[key]; ok && other.Is != f.Is {
			t.Errorf("%s: %s has %s, and %s has %s", key, other.Place, other.Is, f.Place, f.Is)
		}
		seen[key] = f
		places[key]++
	}
	for _, device := range []string{"rxe0", "rxe1"} {
		for what, n := range map[string]int{"index": 2, "GUID": 3, "uverbs": 3, "umad": 3} {
			if got := places[device+" "+what]; got != n {
				t.Errorf("%s %s: %d places say it, want %d: %+v", device, what, got, n, facts)
			}
		}
		if seen[device+" index"].Is != strings.TrimPrefix(device, "rxe") {
			t.Errorf("%s has index %s", device, seen[device+" index"].Is)
		}
	}
	if places[" rdma_cm"] != 3 {
		t.Errorf("rdma_cm: %+v", facts)
	}
	if seen["rxe0 GUID"].Is == seen["rxe1 GUID"].Is {
		t.Error("two devices have one GUID")
	}
}

// playNumbers prints what each place says of the devices with the addresses.
func playNumbers(addresses []string) int {
	facts, err := numbers(addresses)
	return printed(facts, err)
}

func numbers(addresses []string) ([]fact, error) {
	list, err := netlinkNumbers()
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	byIndex := make(map[string]string)
	for _, f := range list {
		if f.What == "index" {
			byIndex[f.Is] = f.Device
		}
	}
	more, err := fileNumbers()
	if err != nil {
		return nil, err
	}
	list = append(list, more...)
	for _, a := range addresses {
		guid, index, err := boundTo(netip.MustParseAddr(a))
		if err != nil {
			return nil, fmt.Errorf("rdma_cm: %s: %w", a, err)
		}
		// The index names the device, so that a wrong one shows as a wrong GUID.
		name := byIndex[index]
		list = append(list, fact{name, "index", "rdma_cm", index}, fact{name, "GUID", "rdma_cm", guid})
	}
	return list, nil
}

// The numbers of rdma/rdma_netlink.h that vishvananda/netlink lacks.
const (
	nldevGetChardev  = 15
	attrPortIndex    = 3
	attrNodeGUID     = 6
	attrChardevType  = 69
	attrChardevValue = 72
)

// nldev asks, and returns the attributes of each message of the answer.
func nldev(command, flags int, attrs ...*nl.RtAttr) ([]map[uint16][]byte, error) {
	req := nl.NewNetlinkRequest(nl.RDMA_NL_NLDEV<<nl.RDMA_NL_GET_CLIENT_SHIFT|command, flags)
	for _, a := range attrs {
		req.AddData(a)
	}
	msgs, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return nil, err
	}
	var list []map[uint16][]byte
	for _, m := range msgs {
		as, err := nl.ParseRouteAttr(m)
		if err != nil {
			return nil, err
		}
		of := make(map[uint16][]byte)
		for _, a := range as {
			of[a.Attr.Type] = a.Value
		}
		list = append(list, of)
	}
	return list, nil
}

func netlinkNumbers() ([]fact, error) {
	devices, err := nldev(nl.RDMA_NLDEV_CMD_GET, unix.NLM_F_DUMP)
	if err != nil {
		return nil, err
	}
	chardev := func(typ string, attrs ...*nl.RtAttr) (string, error) {
		list, err := nldev(nldevGetChardev, 0, append(attrs, nl.NewRtAttr(attrChardevType, nl.ZeroTerminated(typ)))...)
		if err != nil || len(list) != 1 {
			return "", fmt.Errorf("chardev %s: %v, %w", typ, list, err)
		}
		// huge_encode_dev: 12 bits of the minor number lie above the major one.
		n := binary.NativeEndian.Uint64(list[0][attrChardevValue])
		return fmt.Sprintf("%d:%d", n>>8&0xfff, n&0xff|n>>12&^0xff), nil
	}
	cm, err := chardev("rdma_cm")
	if err != nil {
		return nil, err
	}
	facts := []fact{{"", "rdma_cm", "netlink", cm}}
	for _, d := range devices {
		name := strings.TrimRight(string(d[nl.RDMA_NLDEV_ATTR_DEV_NAME]), "\x00")
		index := nl.NewRtAttr(nl.RDMA_NLDEV_ATTR_DEV_INDEX, d[nl.RDMA_NLDEV_ATTR_DEV_INDEX])
		verbs, err := chardev("uverbs", index)
		if err != nil {
			return nil, err
		}
		mad, err := chardev("umad", index, nl.NewRtAttr(attrPortIndex, nl.Uint32Attr(1)))
		if err != nil {
			return nil, err
		}
		facts = append(facts,
			fact{name, "index", "netlink", fmt.Sprint(binary.NativeEndian.Uint32(d[nl.RDMA_NLDEV_ATTR_DEV_INDEX]))},
			fact{name, "GUID", "netlink", fmt.Sprintf("%016x", binary.NativeEndian.Uint64(d[attrNodeGUID]))},
			fact{name, "uverbs", "netlink", verbs}, fact{name, "umad", "netlink", mad})
	}
	return facts, nil
}

// fileNumbers reads sysfs, and examines the device nodes when they are open.
func fileNumbers() (facts []fact, err error) {
	read := func(path ...string) string {
		b, e := os.ReadFile(filepath.Join(path...))
		if e != nil && err == nil {
			err = e
		}
		return strings.TrimSpace(string(b))
	}
	node := func(name string) string {
		f, e := os.OpenFile("/dev/infiniband/"+name, os.O_RDWR, 0)
		if e != nil {
			if err == nil {
				err = e
			}
			return ""
		}
		defer f.Close()
		var st unix.Stat_t
		if e := unix.Fstat(int(f.Fd()), &st); e != nil {
			err = e
		}
		return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	for i := range 2 {
		for what, class := range map[string]string{"uverbs": "infiniband_verbs", "umad": "infiniband_mad"} {
			file := what + strconv.Itoa(i)
			dir := filepath.Join("/sys/class", class, file)
			name := read(dir, "ibdev")
			facts = append(facts, fact{name, what, "sysfs", read(dir, "dev")}, fact{name, what, "fstat", node(file)})
			if what == "uverbs" {
				guid := read("/sys/class/infiniband", name, "node_guid")
				facts = append(facts, fact{name, "GUID", "sysfs", strings.ReplaceAll(guid, ":", "")})
			}
		}
	}
	facts = append(facts, fact{"", "rdma_cm", "sysfs", read("/sys/class/misc/rdma_cm/dev")}, fact{"", "rdma_cm", "fstat", node("rdma_cm")})
	return facts, err
}

// boundTo binds an id of RDMA CM to an address, and asks for its device.
func boundTo(a netip.Addr) (guid, index string, err error) {
	f, err := os.OpenFile("/dev/infiniband/rdma_cm", os.O_RDWR, 0)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	answer := make([]byte, 208) // struct rdma_ucm_query_route_resp
	where := uint64(uintptr(unsafe.Pointer(&answer[0])))
	defer runtime.KeepAlive(answer)
	order := binary.NativeEndian
	request := func(command uint32, body []byte) error {
		b := order.AppendUint16(order.AppendUint16(order.AppendUint32(nil, command), uint16(len(body))), uint16(len(answer)))
		_, err := f.Write(append(b, body...))
		return err
	}
	create := make([]byte, 24) // struct rdma_ucm_create_id
	order.PutUint64(create[8:], where)
	order.PutUint16(create[16:], 0x106) // RDMA_PS_TCP
	if err := request(0, create); err != nil {
		return "", "", fmt.Errorf("create: %w", err)
	}
	id := order.Uint32(answer)
	bind := make([]byte, 40) // struct rdma_ucm_bind_ip
	order.PutUint16(bind[8:], unix.AF_INET)
	ip := a.As4()
	copy(bind[12:], ip[:])
	order.PutUint32(bind[36:], id)
	if err := request(2, bind); err != nil {
		return "", "", fmt.Errorf("bind: %w", err)
	}
	query := make([]byte, 16) // struct rdma_ucm_query
	order.PutUint64(query, where)
	order.PutUint32(query[8:], id)
	if err := request(5, query); err != nil {
		return "", "", fmt.Errorf("query: %w", err)
	}
	return hex.EncodeToString(answer[:8]), fmt.Sprint(order.Uint32(answer[200:])), nil
}
