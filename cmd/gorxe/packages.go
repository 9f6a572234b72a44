package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/gorxe/gorxe/internal/fault"
	"github.com/gorxe/gorxe/internal/service/keeper"
)

// packaged are well-known programs, and their packages of Debian and of Fedora, as scripts/setup.sh
// has them.
var packaged = []struct{ programs, debian, fedora string }{
	{"ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong", "ibverbs-utils", "libibverbs-utils"},
	{"ib_atomic_bw ib_atomic_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_write_bw ib_write_lat", "perftest", "perftest"},
	{"cmtime mckey rcopy rdma_client rdma_server rdma_xclient rdma_xserver riostream rping rstream ucmatose udaddy udpong", "rdmacm-utils", "librdmacm-utils"},
	{"iblinkinfo ibnetdiscover ibping ibqueryerrors ibstat ibstatus perfquery sminfo smpquery", "infiniband-diags", "infiniband-diags"},
	{"rdma", "iproute2", "iproute"}, {"qperf", "qperf", "qperf"},
	{"fi_info fi_pingpong fi_strerror", "libfabric-bin", "libfabric"}, {"ucx_info ucx_perftest", "ucx-utils", "ucx"},
}

// wellKnown are the names of these programs.
func wellKnown() (names []string) {
	for _, p := range packaged {
		names = append(names, strings.Fields(p.programs)...)
	}
	return names
}

// isProgram reports whether a word names a program of this machine, or a well-known one.
func isProgram(word string) bool {
	if word == "" || strings.HasPrefix(word, "-") {
		return false
	}
	_, err := exec.LookPath(word)
	return err == nil || slices.Contains(wellKnown(), word)
}

// shortName is the length below which another name is too near by chance.
const shortName = 6

// withPackage says what may help if a program is not there: the package of a well-known one, its
// right name, or that the name has its arguments in it.
func withPackage(err error, program []string) error {
	var exit *keeper.ExitError
	if !errors.As(err, &exit) || exit.Code != keeper.ExitNotFound || len(program) == 0 {
		return err
	}
	help := ""
	name := program[0]
	first, _, spaced := strings.Cut(strings.TrimSpace(name), " ")
	first = strings.TrimRight(first, ";&|")
	switch {
	case spaced && isProgram(first) && strings.ContainsAny(name, "|&;<>$`*?(\"'"):
		help = "this is a line for a shell: sh -c '" + strings.ReplaceAll(strings.TrimSpace(name), "'", `'\''`) + "'"
	case spaced && isProgram(first):
		help = "the name has a space: write the arguments without quotes around all of them: " + strings.TrimSpace(name)
	case slices.Contains(wellKnown(), name):
		for _, p := range packaged {
			if slices.Contains(strings.Fields(p.programs), name) {
				help = fmt.Sprintf("Debian has it in the package %s, Fedora in %s", p.debian, p.fedora)
			}
		}
	case len(name) >= shortName && !strings.Contains(name, "/"):
		if near := fault.Nearest(name, wellKnown()); near != "" {
			help = "did you mean " + near + "?"
		}
	}
	if help == "" {
		return err
	}
	return &keeper.ExitError{Code: exit.Code, Err: fmt.Errorf("%w: %s", exit.Err, help)}
}
