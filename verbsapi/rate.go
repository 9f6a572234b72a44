package verbsapi

// Rate is a static rate limit (enum ibv_rate). This device takes them and does
// not pace.
type Rate uint8

// The rates of InfiniBand, in gigabits per second.
const (
	RateMax  Rate = 0
	Rate2_5  Rate = 2
	Rate10   Rate = 3
	Rate30   Rate = 4
	Rate5    Rate = 5
	Rate20   Rate = 6
	Rate40   Rate = 7
	Rate60   Rate = 8
	Rate80   Rate = 9
	Rate120  Rate = 10
	Rate14   Rate = 11
	Rate56   Rate = 12
	Rate112  Rate = 13
	Rate168  Rate = 14
	Rate25   Rate = 15
	Rate100  Rate = 16
	Rate200  Rate = 17
	Rate300  Rate = 18
	Rate28   Rate = 19
	Rate50   Rate = 20
	Rate400  Rate = 21
	Rate600  Rate = 22
	Rate800  Rate = 23
	Rate1200 Rate = 24
)

// noMult marks the rates that are not a whole multiple of 2.5 Gbit/s,
// and for which libibverbs has none.
const noMult = -1

// rates are the signalling rates; 14.0625 Gbit/s lanes and faster ones carry
// their exact figure in Mbit/s.
var rates = [...]struct{ mult, mbps int }{
	Rate2_5:  {1, 2500},
	Rate10:   {4, 10000},
	Rate30:   {12, 30000},
	Rate5:    {2, 5000},
	Rate20:   {8, 20000},
	Rate40:   {16, 40000},
	Rate60:   {24, 60000},
	Rate80:   {32, 80000},
	Rate120:  {48, 120000},
	Rate14:   {noMult, 14062},
	Rate56:   {noMult, 56250},
	Rate112:  {noMult, 112500},
	Rate168:  {noMult, 168750},
	Rate25:   {noMult, 25781},
	Rate100:  {noMult, 103125},
	Rate200:  {noMult, 206250},
	Rate300:  {noMult, 309375},
	Rate28:   {11, 28125},
	Rate50:   {20, 53125},
	Rate400:  {160, 425000},
	Rate600:  {240, 637500},
	Rate800:  {320, 850000},
	Rate1200: {480, 1275000},
}

// RateToMult returns r as a multiple of 2.5 Gbit/s, or -1 where there is none
// (ibv_rate_to_mult).
func RateToMult(r Rate) int {
	if int(r) >= len(rates) || rates[r].mult == 0 {
		return noMult
	}
	return rates[r].mult
}

// MultToRate returns the rate that is mult times 2.5 Gbit/s, or RateMax where
// there is none (mult_to_ibv_rate).
func MultToRate(mult int) Rate {
	for r, v := range rates {
		if v.mult == mult && mult > 0 {
			return Rate(r)
		}
	}
	return RateMax
}

// RateToMbps returns r in Mbit/s, or -1 for RateMax and unknown rates
// (ibv_rate_to_mbps).
func RateToMbps(r Rate) int {
	if int(r) >= len(rates) || rates[r].mbps == 0 {
		return -1
	}
	return rates[r].mbps
}

// MbpsToRate returns the rate of mbps Mbit/s, or RateMax where there is none
// (mbps_to_ibv_rate).
func MbpsToRate(mbps int) Rate {
	for r, v := range rates {
		if v.mbps == mbps && mbps > 0 {
			return Rate(r)
		}
	}
	return RateMax
}
