package explain

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLines: what programs print when something fails leads to what it means, the first word first.
func TestLines(t *testing.T) {
	for line, want := range map[string]string{
		// ibv_*_pingpong and other programs of libibverbs
		"Failed to get IB devices list: Function not implemented": "No IB devices found, ENOSYS",
		"No IB devices found":                                             "No IB devices found",
		"IB device mlx5_0 not found":                                      "IB device not found",
		"Couldn't register MR":                                            "ibv_reg_mr",
		"Couldn't create QP":                                              "ibv_create_qp",
		"Failed to modify QP to RTR":                                      "ibv_modify_qp",
		"Couldn't connect to 127.0.0.1:18515":                             "Couldn't connect to",
		"client read/write: No space left on device":                      "Couldn't read/write remote address, ENOSPC",
		"can't read sgid of index 3":                                      "GID index",
		"Failed status transport retry counter exceeded (12) for wr_id 2": "IBV_WC_RETRY_EXC_ERR",
		"Failed status Work Request Flushed Error (5) for wr_id 1":        "IBV_WC_WR_FLUSH_ERR",
		"libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so'":  "couldn't load driver",
		// perftest
		"No RDMA devices were detected":                      "No IB devices found",
		" Unable to find the Infiniband/RoCE device":         "No IB devices found",
		" Failed status 12: wr_id 0 syndrom 0x81":            "IBV_WC_RETRY_EXC_ERR",
		" Completion with error at client":                   "got completion with error",
		"Couldn't allocate MR":                               "ibv_reg_mr",
		" Failed to modify QP 17 to RTR":                     "ibv_modify_qp",
		"failed to create mr":                                "ibv_reg_mr",
		" Unable to create QP.":                              "ibv_create_qp",
		"Failed to exchange data between server and clients": "Couldn't read/write remote address",
		"Requested mtu is higher than active mtu":            "mtu is higher than active mtu",
		// rping and librdmacm
		"cma event RDMA_CM_EVENT_ADDR_ERROR, error -19":       "RDMA_CM_EVENT_ADDR_ERROR, ENODEV",
		"cma event RDMA_CM_EVENT_REJECTED, error 8":           "RDMA_CM_EVENT_REJECTED, IB_CM_REJ_INVALID_SERVICE_ID",
		"rdma_bind_addr: Cannot assign requested address":     "rdma_bind_addr, EADDRNOTAVAIL",
		"rdma_create_event_channel: No such device":           "rdma_create_event_channel, ENODEV",
		"waiting for addr/route resolution state 1":           "waiting for addr/route resolution",
		"wait for CONNECTED state 4":                          "wait for CONNECTED state",
		"cq completion failed status 5":                       "got completion with error, IBV_WC_WR_FLUSH_ERR",
		"librdmacm: Fatal: no RDMA devices found":             "No IB devices found",
		"rdma_create_event_channel failed":                    "rdma_create_event_channel",
		"wait for RDMA_READ_ADV state 10":                     "wait for CONNECTED state",
		"ethernet link layer can't be used with gid index -1": "GID index",
		"connect error -1":                                    "wait for CONNECTED state",
		"ibv_foo failed: ret -1":                              "",
		"Unexpected CM event bl blka 8":                       "wait for CONNECTED state",
		"fi_domain: -12 (Cannot allocate memory)":             "ENOMEM",
		// UCX, libfabric, NCCL, MPI
		"ibv_create_qp(TX wr:256 sge:5 inl:64) failed: Invalid argument":                                                              "ibv_create_qp, EINVAL",
		"ibv_reg_mr(address=0x7f, length=4096, access=0xf) failed: Cannot allocate memory : Please set max locked memory (ulimit -l)": "ibv_reg_mr, ENOMEM",
		"Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)":                                           "IBV_WC_RETRY_EXC_ERR",
		"network device 'mlx5_0:1' is not available, please use one or more of: 'eth0'(tcp)":                                          "IB device not found",
		"select.c:629 UCX ERROR no active messages transport to <no debug data>: Unsupported operation":                               "No IB devices found",
		"fi_getinfo(): common/shared.c:1200, ret=-61 (No data available)":                                                             "No IB devices found, ENODATA",
		"NET/IB : No device found.": "No IB devices found",
		"NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22":                           "ibv_modify_qp, EINVAL",
		"NCCL WARN NET/IB : Got completion from peer 10.0.0.2<44> with status=12 opcode=0 len=0 vendor err 129": "IBV_WC_RETRY_EXC_ERR",
		"00000000 93005204 090006d0 0b8035d3":                                                                   "IBV_WC_LOC_PROT_ERR",
		"00000000 00008813 0800003f 00ff1dd2":                                                                   "IBV_WC_REM_ACCESS_ERR",
		"00000000 00000000 00000000 00000000":                                                                   "",
		// no completion with an error: its last byte says so
		"00000000 93005204 090006d0 0b8035a3":        "",
		"qp 0x1c failed: synd 0x16 vend 0x87":        "IBV_WC_RNR_RETRY_EXC_ERR",
		"mlx5_0: error CQE, syndrome 0x5, vend 0xf9": "IBV_WC_WR_FLUSH_ERR",
		"synd 0x7f": "",
		"mlx5: node1: got completion with error:":                         "got completion with error",
		"The OpenFabrics (openib) BTL failed to initialize":               "No IB devices found",
		"Failed to open NETLINK_RDMA socket":                              "Failed to open NETLINK_RDMA socket",
		" Couldn't Open the XRC Domain":                                   "Couldn't Open the XRC Domain",
		"Error opening XRC domain":                                        "Couldn't Open the XRC Domain",
		"XRC":                                                             "Couldn't Open the XRC Domain",
		" IB device 'mlx5_0' wasn't found":                                "IB device not found",
		" Did not detect devices":                                         "No IB devices found",
		" Found Incompatibility issue with GID types.":                    "Found Incompatibility issue with GID types",
		" Requested size larger than port MTU (1024)":                     "Requested size larger than port MTU",
		"WARNING: There was an error initializing an OpenFabrics device.": "There was an error initializing an OpenFabrics device",
		"fi_domain: error: 2":                                             "IBV_WC_LOC_QP_OP_ERR, ENOENT",
		// nothing
		"65536      1000             959.63             587.76": "", "hello": "", "": "", "success": "", " Using XRC		: OFF": "",
	} {
		var names []string
		for _, w := range Search(line) {
			names = append(names, w.Name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%s\n is %q, want %q", line, got, want)
		}
	}
	Search(strings.Repeat("Failed status 12, errno 22; ", 1<<16))
}

// TestRemedies: what to do has the words that this program needs.
func TestRemedies(t *testing.T) {
	for line, want := range map[string]string{
		"Couldn't connect to 127.0.0.1:18515": "-R at both ends", "Unexpected CM event bl blka 8": "-R at both ends",
		"cma event RDMA_CM_EVENT_REJECTED, error 8":               "-R at both ends",
		"failed to modify QP to RTR: Invalid argument":            "-cm 1 with qperf",
		"Failed to open NETLINK_RDMA socket":                      "gorxe run --device rxe0=eth0",
		"rdma link add rxe0 type rxe netdev eth0":                 "gorxe run --device rxe0=eth0",
		"modprobe: FATAL: Module rdma_rxe not found in directory": "gorxe run --device rxe0=eth0",
	} {
		if list := Search(line); !slices.ContainsFunc(list, func(w Word) bool { return strings.Contains(w.Fix, want) }) {
			t.Errorf("%s: %+v", line, list)
		}
	}
}

// TestEveryErrno: the name, the number and the text of each errno lead to it.
func TestEveryErrno(t *testing.T) {
	n := 0
	for errno := unix.Errno(1); errno < 256; errno++ {
		name := unix.ErrnoName(errno)
		if name == "" {
			continue
		}
		n++
		for _, given := range []string{name, strings.ToLower(name), errno.Error(), "prog: read: " + errno.Error()} {
			if strings.HasPrefix(errno.Error(), "errno ") && given != name {
				continue
			}
			list := Find(given)
			if list == nil {
				list = Search(given)
			}
			if len(list) == 0 || list[len(list)-1].Name != name {
				t.Errorf("%s is %+v, want %s", given, list, name)
			}
		}
	}
	if n < 130 {
		t.Errorf("only %d errnos", n)
	}
	for _, given := range []string{"ENOSYS", "No such device", "No IB devices found"} {
		if w := append(Find(given), Search(given)...); len(w) == 0 || !strings.HasPrefix(w[0].Fix, "Start ") || !strings.Contains(w[0].Fix, "gorxe run") {
			t.Errorf("%s does not lead to gorxe run: %+v", given, w)
		}
	}
}

// TestVerbWords: a verb is found with and without its prefix, and each word says what to do.
func TestVerbWords(t *testing.T) {
	for _, name := range []string{"ibv_create_qp", "create_qp", "rdma_connect", "connect"} {
		if list := Find(name); len(list) != 1 || list[0].Kind != verbKind {
			t.Errorf("%s is %+v", name, list)
		}
	}
	for _, w := range Words() {
		if (w.Kind == verbKind || w.Kind == lineKind) && (w.Meaning == "" || w.Fix == "" || len(w.Says) == 0) {
			t.Errorf("%+v", w)
		}
		for _, part := range w.Says {
			if _, err := regexp.Compile(part); err != nil || part != strings.ToLower(part) {
				t.Errorf("%s: %q: %v", w.Name, part, err)
			}
		}
	}
}

// TestExitCodes: an exit code of gorxe is explained beside what else has its number.
func TestExitCodes(t *testing.T) {
	for number, also := range map[string]string{"2": "ENOENT", "3": "IBV_WC_LOC_EEC_OP_ERR", "125": "ECANCELED", "126": "ENOKEY", "127": "EKEYEXPIRED"} {
		list := Find(number)
		if len(list) < 2 || list[0].Kind != exitKind || list[0].Fix == "" || !slices.ContainsFunc(list, func(w Word) bool { return w.Name == also }) {
			t.Errorf("%s is %+v", number, list)
		}
	}
	if list := Find("124"); len(list) == 0 || list[0].Kind == exitKind {
		t.Errorf("124 is %+v", list)
	}
}
