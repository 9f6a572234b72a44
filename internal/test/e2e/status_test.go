package e2e

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// statusRoom is how many open devices, objects and CM ids a status lists: docs/security.md.
const statusRoom = 8192

// lists is what TestStatusLists reads of `gorxe status --json`.
type lists struct {
	Sessions []struct {
		Processes []struct {
			Files []struct {
				MRs     []json.RawMessage `json:"mrs"`
				LeftOut struct {
					MRs int `json:"mrs"`
				} `json:"left_out"`
				MRBytes int `json:"mr_bytes"`
			} `json:"files"`
		} `json:"processes"`
		CMIDs        []json.RawMessage `json:"cm_ids"`
		CMIDsLeftOut int               `json:"cm_ids_left_out"`
	} `json:"sessions"`
}

// TestStatusLists: a status cuts its lists of objects and of CM ids at a stated number, and counts
// what it leaves out.
func TestStatusLists(t *testing.T) {
	besideOthers(t)
	if !selection.takes(standard) {
		return
	}
	bin := compile(t, "many")
	d := oneDaemon(t)
	const ids = 100
	for _, tt := range []struct {
		name                  string
		regions               int
		cutRegions, cutAllIDs bool
	}{
		{"CM ids", statusRoom - ids/2, false, false},
		{"objects", statusRoom + 1, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := d.run(t, bin, "rxe0", strconv.Itoa(tt.regions), strconv.Itoa(ids))
			if !until(programLimit, func() bool { return p.ended() || strings.Contains(p.out.String(), "made") }) || p.ended() {
				t.Fatalf("%s", p.describe())
			}
			var l lists
			if err := json.Unmarshal([]byte(start(t, d.host, d.env(), gorxe, "status", "--json").ok()), &l); err != nil || len(l.Sessions) != 1 {
				t.Fatalf("%d sessions, %v", len(l.Sessions), err)
			}
			s := l.Sessions[0]
			files, regions, left, bytes := 0, 0, 0, 0
			for _, p := range s.Processes {
				for _, f := range p.Files {
					files++
					regions += len(f.MRs)
					left += f.LeftOut.MRs
					bytes += f.MRBytes
				}
			}
			if n := files + regions + len(s.CMIDs); n != statusRoom {
				t.Errorf("%d files, %d regions, %d CM ids are listed: %d, want %d", files, regions, len(s.CMIDs), n, statusRoom)
			}
			if regions+left != tt.regions || (left > 0) != tt.cutRegions || bytes != tt.regions*4096 {
				t.Errorf("%d regions of %d bytes in all are listed, %d are left out", regions, bytes, left)
			}
			if len(s.CMIDs)+s.CMIDsLeftOut != ids || s.CMIDsLeftOut == 0 || (len(s.CMIDs) == 0) != tt.cutAllIDs {
				t.Errorf("%d CM ids are listed, %d are left out", len(s.CMIDs), s.CMIDsLeftOut)
			}
			p.killProgram("many")
			p.wantKilled()
			d.idle()
		})
	}
}
