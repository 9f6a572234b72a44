package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/keeper"
)

// TestWithPackage: a well-known program that is not there comes with its package, which
// scripts/setup.sh knows too. What is nearly its name, or has arguments in it, is not that program.
func TestWithPackage(t *testing.T) {
	for program, want := range map[string]string{
		"rping": "in the package rdmacm-utils", "ibv_devinfo": "in the package ibverbs-utils", "ib_write_bw": "in the package perftest", "rdma": "in the package iproute2",
		"ibv_devinf": "did you mean ibv_devinfo?", "ib_wirte_bw": "did you mean ib_write_bw?",
		"ibv_devinfo -l":        "the name has a space: write the arguments without quotes around all of them: ibv_devinfo -l",
		"ibv_devinfo -l | wc":   "this is a line for a shell: sh -c 'ibv_devinfo -l | wc'",
		"ibv_devinfo; rping -s": "this is a line for a shell: sh -c 'ibv_devinfo; rping -s'",
		"ibv_devinfo && rping":  "this is a line for a shell: sh -c 'ibv_devinfo && rping'",
		"ibv_devinfo -d $DEV":   "this is a line for a shell: sh -c 'ibv_devinfo -d $DEV'",
		"rping -a 'x' | wc":     `this is a line for a shell: sh -c 'rping -a '\''x'\'' | wc'`,
		"my-test":               "", "./rping": "", "ping": "", "my test": "", "ibv_mine": "",
	} {
		for _, code := range []int{keeper.ExitNotFound, keeper.ExitFailed} {
			err := withPackage(&keeper.ExitError{Code: code, Err: errors.New("exec")}, []string{program})
			says := "exec"
			if want != "" && code == keeper.ExitNotFound {
				says = want
			}
			var exit *keeper.ExitError
			if !errors.As(err, &exit) || exit.Code != code || !strings.Contains(err.Error(), says) || says == "exec" && err.Error() != says {
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
