package main

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const events = `
{"Action":"build-output","ImportPath":"p/bad","Output":"bad.go:1: syntax error\n"}
{"Action":"output","Package":"p/a","Output":"-test.shuffle 11\n"}
{"Action":"output","Package":"p/b","Output":"-test.shuffle 12\n"}
{"Action":"run","Package":"p/a","Test":"TestGood"}
{"Action":"output","Package":"p/a","Test":"TestGood","Output":"chatter\n"}
{"Action":"pass","Package":"p/a","Test":"TestGood","Elapsed":61.7}
{"Action":"run","Package":"p/a","Test":"TestBad"}
{"Action":"output","Package":"p/a","Test":"TestBad","Output":"    bad_test.go:7: want 1, got 2\n"}
{"Action":"fail","Package":"p/a","Test":"TestBad"}
{"Action":"run","Package":"p/a","Test":"TestSkip"}
{"Action":"output","Package":"p/a","Test":"TestSkip","Output":"no tool\n"}
{"Action":"skip","Package":"p/a","Test":"TestSkip"}
{"Action":"run","Package":"p/a","Test":"TestHangs"}
{"Action":"run","Package":"p/a","Test":"TestLater"}
{"Action":"output","Package":"p/a","Test":"TestLater","Output":"=== PAUSE TestLater\n"}
{"Action":"pause","Package":"p/a","Test":"TestLater"}
{"Action":"pause","Package":"p/a","Test":"TestHangs"}
{"Action":"cont","Package":"p/a","Test":"TestHangs"}
{"Action":"output","Package":"p/a","Output":"FAIL\tp/a\t0.1s\n"}
{"Action":"fail","Package":"p/a"}
{"Action":"output","Package":"p/b","Output":"PASS\n"}
{"Action":"output","Package":"p/b","Output":"ok  \tp/b\t0.2s\n"}
{"Action":"pass","Package":"p/b"}
{"Action":"skip","Package":"p/none"}
no event at all
`
	var out strings.Builder
	sum, err := report(strings.NewReader(events[1:]), &out)
	if err != nil {
		t.Fatal(err)
	}
	if sum.packages != 2 || sum.passed != 1 {
		t.Errorf("packages, passed = %d, %d, want 2, 1", sum.packages, sum.passed)
	}
	if want := []string{"p/a.TestBad", "p/a.TestHangs (did not finish)", "p/a.TestLater (did not begin)"}; !slices.Equal(sum.failed, want) {
		t.Errorf("failed = %q, want %q", sum.failed, want)
	}
	if want := []string{"p/a.TestSkip"}; !slices.Equal(sum.skipped, want) {
		t.Errorf("skipped = %q, want %q", sum.skipped, want)
	}
	if total := sum.String(); !strings.Contains(total, "FAILED  p/a.TestBad\n          bad_test.go:7: want 1, got 2\n") {
		t.Errorf("the totals lack the error:\n%s", total)
	} else if !strings.HasSuffix(total, "\n  TOOK  62 s p/a.TestGood") {
		t.Errorf("the totals lack what took long, or have what did not:\n%s", total)
	}
	const want = "bad.go:1: syntax error\n    bad_test.go:7: want 1, got 2\nno tool\n" +
		"FAIL\tp/a\t0.1s\n-test.shuffle 11\nok  \tp/b\t0.2s\nno event at all\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// TestTake: nobody else gets the port of an address that is held, or that another gorxe holds.
func TestTake(t *testing.T) {
	held := take()
	if c, err := net.ListenPacket("udp", "127.0.0.1:4791"); err == nil {
		c.Close()
		t.Error("the port is free")
	}
	release(held)
}
