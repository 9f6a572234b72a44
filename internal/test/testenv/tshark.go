package testenv

import (
	"bytes"
	"cmp"
	"os/exec"
	"strings"
	"testing"
)

// tsharkGuessers are protocols that tshark suspects in any payload. They hide
// it, and call it malformed.
var tsharkGuessers = []string{
	"smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband.eoib",
	"infiniband_sdp", "fcoib", "drbd", "ethertype", "ipoib",
}

// Tshark returns what tshark reads in a capture: for each packet one string for
// each field, the first occurrence. A field that a packet does not have is empty.
func Tshark(t testing.TB, file string, fields ...string) [][]string {
	t.Helper()
	path, err := exec.LookPath("tshark")
	if err != nil {
		Missing(t, "NOT CHECKED against an independent decoder: install the Debian package tshark")
	}
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, g := range tsharkGuessers {
		args = append(args, "--disable-protocol", g)
	}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		for i := range row { // Debian 13's tshark writes words for flags
			row[i] = cmp.Or(map[string]string{"False": "0", "True": "1"}[row[i]], row[i])
		}
		rows = append(rows, row)
	}
	return rows
}
