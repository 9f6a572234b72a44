package verbstest

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/verbsapi"
)

// judged is a test that fails in our place.
type judged struct {
	testing.TB
	errors []string
	ends   []func()
}

func (j *judged) Cleanup(f func()) { j.ends = append(j.ends, f) }
func (j *judged) Errorf(format string, args ...any) {
	j.errors = append(j.errors, fmt.Sprintf(format, args...))
}

// TestSanitize: a test fails if its program misuses verbs, and its log has the lines of the
// program.
func TestSanitize(t *testing.T) {
	var line int
	for _, c := range []struct {
		name string
		do   func(client, server *End)
		want []string // checks
	}{
		{"right", func(client, server *End) {
			client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{client.SGE(0, 64)}, RemoteAddr: server.MR.Addr(), RKey: server.MR.RKey()})
			client.Await(1)
			clear(client.Buffer)
		}, nil},
		{"beyond a region", func(client, server *End) {
			_, _, line, _ = runtime.Caller(0)
			client.Post(verbsapi.SendWR{ID: 1, Op: verbsapi.WRWrite, SGL: []verbsapi.SGE{client.SGE(0, 64)}, RemoteAddr: server.MR.Addr() + 1<<16 - 1, RKey: server.MR.RKey()})
			client.AwaitStatus(1, verbsapi.WCRemAccessErr)
		}, []string{"key-range", "refused-by-peer"}},
		{"too early", func(client, server *End) {
			wr := verbsapi.SendWR{ID: 1, Op: verbsapi.WRRead, SGL: []verbsapi.SGE{client.SGE(0, 64)}, RemoteAddr: server.MR.Addr(), RKey: server.MR.RKey()}
			next := wr
			next.ID, next.Op, next.RemoteAddr, next.Flags = 2, verbsapi.WRWrite, wr.RemoteAddr+4096, verbsapi.SendSignaled
			_, _, line, _ = runtime.Caller(0)
			if _, err := client.QP.PostSend([]verbsapi.SendWR{wr, next}); err != nil {
				t.Error(err)
			}
			client.Await(2)
		}, []string{"read-early"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &judged{TB: t}
			client, server := Pair(j, Config{Sanitize: "default"})
			c.do(client, server)
			for _, end := range slices.Backward(j.ends) {
				end()
			}
			log := strings.Join(j.errors, "\n")
			var found []string
			for _, m := range regexp.MustCompile(`(?:ERROR|WARNING|NOTE): ([a-z-]+):`).FindAllStringSubmatch(log, -1) {
				found = append(found, m[1])
			}
			slices.Sort(found)
			if !slices.Equal(found, c.want) {
				t.Errorf("found %q, want %q:\n%s", found, c.want, log)
			}
			if place := fmt.Sprintf("sanitize_test.go:%d in ", line+1); c.want != nil && !strings.Contains(log, place) {
				t.Errorf("no %q in:\n%s", place, log)
			}
		})
	}
}

// TestSanitizeChecks: a device with an unknown check is not opened.
func TestSanitizeChecks(t *testing.T) {
	if ctx, err := verbsapi.Open(verbsapi.Config{Interface: "lo", Sanitize: "leek"}); err == nil || !strings.Contains(err.Error(), `"leek" is no check`) {
		ctx.Close() //nolint:errcheck // it fails already
		t.Error(err)
	}
}
