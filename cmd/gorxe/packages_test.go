package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/keeper"
)

// TestWithPackage: a well-known program that is not there comes with its package, which
// scripts/setup.sh knows too.
func TestWithPackage(t *testing.T) {
	for program, want := range map[string]string{
		"rping": "rdmacm-utils", "ibv_devinfo": "ibverbs-utils", "ib_write_bw": "perftest", "rdma": "iproute2", "my-test": "", "./rping": "",
	} {
		for _, code := range []int{keeper.ExitNotFound, keeper.ExitFailed} {
			err := withPackage(&keeper.ExitError{Code: code, Err: errors.New("exec")}, []string{program})
			named := want != "" && code == keeper.ExitNotFound
			var exit *keeper.ExitError
			if !errors.As(err, &exit) || exit.Code != code || strings.Contains(err.Error(), "Debian has it in the package "+want) != named {
				t.Errorf("%s, exit code %d: %v", program, code, err)
			}
		}
	}
	setup, err := os.ReadFile("../../scripts/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packaged {
		if !strings.Contains(string(setup), "need "+p.debian+" "+p.fedora+" ") {
			t.Errorf("scripts/setup.sh does not know %s and %s", p.debian, p.fedora)
		}
	}
}
