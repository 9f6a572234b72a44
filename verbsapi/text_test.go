package verbsapi

import "testing"

// The figures are what ibv_rate_to_mult, mult_to_ibv_rate, ibv_rate_to_mbps and
// mbps_to_ibv_rate of rdma-core 44 return for these rates.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		rate       Rate
		mult, mbps int
	}{
		{RateMax, -1, -1}, {1, -1, -1}, {25, -1, -1}, {Rate2_5, 1, 2500}, {Rate10, 4, 10000}, {Rate30, 12, 30000},
		{Rate5, 2, 5000}, {Rate20, 8, 20000}, {Rate40, 16, 40000}, {Rate60, 24, 60000}, {Rate80, 32, 80000},
		{Rate120, 48, 120000}, {Rate14, -1, 14062}, {Rate56, -1, 56250}, {Rate112, -1, 112500}, {Rate168, -1, 168750},
		{Rate25, -1, 25781}, {Rate100, -1, 103125}, {Rate200, -1, 206250}, {Rate300, -1, 309375}, {Rate28, 11, 28125},
		{Rate50, 20, 53125}, {Rate400, 160, 425000}, {Rate600, 240, 637500}, {Rate800, 320, 850000}, {Rate1200, 480, 1275000},
	} {
		if got := RateToMult(c.rate); got != c.mult {
			t.Errorf("RateToMult(%d) = %d, want %d", c.rate, got, c.mult)
		}
		if got := RateToMbps(c.rate); got != c.mbps {
			t.Errorf("RateToMbps(%d) = %d, want %d", c.rate, got, c.mbps)
		}
		if got := MultToRate(c.mult); c.mult > 0 && got != c.rate {
			t.Errorf("MultToRate(%d) = %d, want %d", c.mult, got, c.rate)
		}
		if got := MbpsToRate(c.mbps); c.mbps > 0 && got != c.rate {
			t.Errorf("MbpsToRate(%d) = %d, want %d", c.mbps, got, c.rate)
		}
	}
	if MultToRate(3) != RateMax || MultToRate(-1) != RateMax || MbpsToRate(14000) != RateMax || MbpsToRate(-1) != RateMax {
		t.Error("a number that stands for no rate has one")
	}
}

// The texts are libibverbs'.
func TestStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NodeTypeStr(NodeCA), "InfiniBand channel adapter"},
		{NodeTypeStr(0), "unknown"},
		{PortStateStr(PortActive), "active"},
		{PortStateStr(PortNop), "no state change (NOP)"},
		{PortStateStr(99), "unknown"},
		{EventTypeStr(EventCQErr), "CQ error"},
		{EventTypeStr(EventGIDChange), "GID table change"},
		{EventTypeStr(200), "unknown"},
		{WCStatusStr(WCSuccess), "success"},
		{WCStatusStr(WCFlushErr), "Work Request Flushed Error"},
		{WCStatusStr(WCRNRRetryErr), "RNR retry counter exceeded"},
		{WCStatusStr(WCGeneralErr), "general error"},
		{WCStatusStr(200), "unknown"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
