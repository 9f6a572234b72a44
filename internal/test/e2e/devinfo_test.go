package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDevices(t *testing.T) {
	need(t, "ibv_devices")
	if !selection.takes(core) {
		return
	}
	r := oneHost(t)
	out := r.start(t, "ibv_devices").ok()
	if !regexp.MustCompile(`(?m)^ +` + r.device + ` +\t[0-9a-f]{16}$`).MatchString(out) {
		t.Errorf("ibv_devices:\n%s", out)
	}
	out = r.start(t, "ibv_devinfo", "-l").ok()
	if !strings.Contains(out, "1 HCA found:\n\t"+r.device+"\n") {
		t.Errorf("ibv_devinfo -l:\n%s", out)
	}
}

// differs is a field of `ibv_devinfo -v` whose value is another one here than on
// Linux's rdma_rxe, or which is missing on one side.
type differs struct{ here, reason string }

// ofTheMachine are the fields that depend on the machine, not on the driver.
var ofTheMachine = map[string]*regexp.Regexp{
	"node_guid":           regexp.MustCompile(`^[0-9a-f]{4}(:[0-9a-f]{4}){3}$`),
	"sys_image_guid":      regexp.MustCompile(`^[0-9a-f]{4}(:[0-9a-f]{4}){3}$`),
	"num_comp_vectors":    regexp.MustCompile(`^[1-9]\d*$`),
	"port.1/GID[ 0]":      regexp.MustCompile(`^fe80::[0-9a-f:]+, RoCE v2$`),
	"port.1/GID[ 1]":      regexp.MustCompile(`^::ffff:[0-9.]+, RoCE v2$`),
	"port.1/GID[ 2]":      regexp.MustCompile(`^fd[0-9a-f:]+, RoCE v2$`),
	"port.1/active_mtu":   regexp.MustCompile(`^1024 \(3\)$|^4096 \(5\)$`),
	"port.1/active_speed": nil,
	"port.1/active_width": nil,
}

const (
	noPath  = "rdma_rxe claims AUTO_PATH_MIG and CHANGE_PHY_PORT, and has neither"
	hasMore = "FLUSH and ATOMIC WRITE, as rdma_rxe has them since Linux 6.2; names newer than this ibv_devinfo"
	noLimit = "one limit for all kinds of objects"
)

// deviceDiffers is everything in which the device shown is not the kernel's.
var deviceDiffers = map[string]differs{
	"device_cap_flags": {"0x01223c46 BAD_PKEY_CNTR BAD_QKEY_CNTR UD_AV_PORT_ENFORCE PORT_ACTIVE_EVENT " +
		"SYS_IMAGE_GUID RC_RNR_NAK_GEN SRQ_RESIZE MEM_WINDOW MEM_MGT_EXTENSIONS MEM_WINDOW_TYPE_2B", noPath},
	"device_cap_flags_ex": {"0x1C001223C46 Unknown flags: 0x1C000000000", hasMore},
	"general_odp_caps":    {"ODP_SUPPORT ODP_SUPPORT_IMPLICIT", hasODP},
	"rc_odp_caps": {"SUPPORT_SEND SUPPORT_RECV SUPPORT_WRITE SUPPORT_READ SUPPORT_ATOMIC SUPPORT_SRQ " +
		"Unknown flags: 0xC0", hasODP},
	"uc_odp_caps":       {"SUPPORT_SEND SUPPORT_RECV SUPPORT_WRITE SUPPORT_SRQ", hasODP},
	"ud_odp_caps":       {"SUPPORT_SEND SUPPORT_RECV SUPPORT_SRQ", hasODP},
	"board_id":          {"gorxe", "prometheus-node-exporter 1.5 wants one"},
	"max_mr":            {"1048576", noLimit},
	"max_mw":            {"1048576", noLimit},
	"max_qp":            {"1048576", noLimit},
	"max_srq":           {"1048576", noLimit},
	"max_pkeys":         {"1", "the table of its only port has one entry, on both"},
	"port.1/max_msg_sz": {"0x80000000", "the limit of the InfiniBand specification; rdma_rxe has 8 MiB"},
}

// TestDevinfo compares `ibv_devinfo -v`, field by field, with the kernel's.
func TestDevinfo(t *testing.T) {
	need(t, "ibv_devinfo")
	if !selection.takes(core) {
		return
	}
	text, err := os.ReadFile("testdata/devinfo-linux-6.1.192.txt")
	if err != nil {
		t.Fatal(err)
	}
	kernel := devinfo(string(text))
	got := devinfo(oneHost(t).start(t, "ibv_devinfo", "-v").ok())
	var table strings.Builder
	table.WriteString("| field | Linux 6.1 rdma_rxe | gorxe | because |\n|---|---|---|---|\n")
	names := maps.Clone(kernel)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if form, ok := ofTheMachine[name]; ok {
			if form != nil && !form.MatchString(got[name]) {
				t.Errorf("%s: %q", name, got[name])
			}
			continue
		}
		want := kernel[name]
		d, known := deviceDiffers[name]
		if known {
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", name, want, d.here, d.reason)
			if want == d.here {
				t.Errorf("%s does not differ, but is listed", name)
			}
			want = d.here
		}
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	compatibility(t, "device attributes", table.String())
}

// devinfo takes the output apart: "port.1/state" is "PORT_ACTIVE (4)". Names
// without a value are collected under the field above them.
func devinfo(text string) map[string]string {
	fields := make(map[string]string)
	prefix, last := "", ""
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "":
		case name == "port" && ok:
			prefix = "port." + value + "/"
		case ok && (strings.Contains(line, ":\t") || value == ""):
			last = prefix + strings.Join(strings.Fields(name), " ")
			fields[last] = value
		default:
			fields[last] = strings.TrimSpace(fields[last] + " " + strings.TrimSpace(line))
		}
	}
	return fields
}
