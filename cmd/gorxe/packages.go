package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gorxe/gorxe/internal/service/keeper"
)

// packaged are well-known programs, and their packages of Debian and of Fedora, as scripts/setup.sh
// has them.
var packaged = []struct{ program, debian, fedora string }{
	{"ibv_*", "ibverbs-utils", "libibverbs-utils"},
	{"ib_*_bw", "perftest", "perftest"}, {"ib_*_lat", "perftest", "perftest"},
	{"rping", "rdmacm-utils", "librdmacm-utils"}, {"ucmatose", "rdmacm-utils", "librdmacm-utils"},
	{"udaddy", "rdmacm-utils", "librdmacm-utils"}, {"mckey", "rdmacm-utils", "librdmacm-utils"},
	{"rdma_*", "rdmacm-utils", "librdmacm-utils"}, {"rstream", "rdmacm-utils", "librdmacm-utils"},
	{"ibstat*", "infiniband-diags", "infiniband-diags"}, {"perfquery", "infiniband-diags", "infiniband-diags"},
	{"rdma", "iproute2", "iproute"}, {"qperf", "qperf", "qperf"},
	{"fi_*", "libfabric-bin", "libfabric"}, {"ucx_*", "ucx-utils", "ucx"},
}

// withPackage names the package of a program that is not there.
func withPackage(err error, program []string) error {
	var exit *keeper.ExitError
	if !errors.As(err, &exit) || exit.Code != keeper.ExitNotFound || len(program) == 0 {
		return err
	}
	for _, p := range packaged {
		if is, _ := filepath.Match(p.program, program[0]); is { // the patterns are correct
			return &keeper.ExitError{Code: exit.Code, Err: fmt.Errorf("%w: Debian has it in the package %s, Fedora in %s", exit.Err, p.debian, p.fedora)}
		}
	}
	return err
}
