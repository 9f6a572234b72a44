package proto

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/rxe"
)

func TestParseECN(t *testing.T) {
	off, some := rxe.DefaultECN(), rxe.DefaultECN()
	off.Off = true
	some.RateAI, some.CNPDSCP = 20, 0
	for text, want := range map[ECN]rxe.ECN{
		"": rxe.DefaultECN(), "on": rxe.DefaultECN(), "off": off, "rpg_ai_rate=20,cnp_dscp=0": some,
	} {
		got, err := ParseECN(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		b, err := json.Marshal(Wanted{ECN: text})
		var back Wanted
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || back.ECN != text {
			t.Errorf("%q came back as %q, %v", text, back.ECN, err)
		}
	}
	for text, why := range map[string]string{
		"of": "give on, off, or NAME=NUMBER", "ai_rate=3": "the names are min_time_between_cnps", "cnp_dscp=64": "from 0 to 63",
		"cnp_dscp": "from 0 to 63", "rpg_ai_rate=1,": `"": give on`, "off,cnp_dscp=3": `"off"`,
	} {
		var e ECN
		if err := e.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
