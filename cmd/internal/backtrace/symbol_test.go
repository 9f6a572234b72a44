package backtrace

import (
	"strings"
	"testing"
)

func TestReadableName(t *testing.T) {
	for symbol, want := range map[string]string{
		"main":                               "main",
		"ep_qp.constprop.0":                  "ep_qp",
		"cas.isra.0":                         "cas",
		"f.part.0.cold":                      "f",
		"main.main":                          "main.main", // of Go
		"_ZN3net6BufferC2EP6ibv_pdmi":        "net::Buffer::Buffer",
		"_ZN3net6Server5startEv.cold":        "net::Server::start",
		"_ZN1r3net4send17h0123456789abcdefE": "r::net::send",
		"_Zmalformed":                        "_Zmalformed",
		strings.Repeat("x", 2*mostName):      strings.Repeat("x", mostName),
		// it is not searched for marks
		strings.Repeat(".part", mostName): strings.Repeat(".part", mostName)[:mostName],
	} {
		if got := readableName(symbol); got != want {
			t.Errorf("readableName(%q) is %q, want %q", symbol, got, want)
		}
	}
}
