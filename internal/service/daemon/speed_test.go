package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/internal/service/proto"
)

func TestParseSpeed(t *testing.T) {
	for text, want := range map[string]proto.Speed{"2.5": 2500, "10": 10000, "40.0": 40000, "1e2": 100000, "2400": 2400000} {
		if got, err := proto.ParseSpeed(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, part := range map[string]string{
		"": "not a number", "fast": "not a number", "10Gb": "as 2.5 or 100", "NaN": "choose one of 2.5, 5, 10",
		"0": "choose one", "-10": "choose one", "1": "choose one", "2.4": "choose one", "25.78": "choose one",
		"4800": "1600, 2400", "Inf": "choose one",
	} {
		if got, err := proto.ParseSpeed(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, %v; want %q in the error", text, got, err, part)
		}
	}
}

// A speed crosses the socket as it was given.
func TestSpeedJSON(t *testing.T) {
	for _, s := range []proto.Spec{{Name: "rxe0", Interface: "lo"}, {Name: "rxe0", Interface: "lo", Speed: 2500}} {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got proto.Spec
		if err := json.Unmarshal(b, &got); err != nil || got != s {
			t.Errorf("%s becomes %+v, %v", b, got, err)
		}
	}
}

// TestOtherCapture: a client learns that only the capture does not suit, by a code and not by the
// text.
func TestOtherCapture(t *testing.T) {
	s := &Server{cfg: Config{Capture: "a"}}
	if err := s.suits(&proto.Wanted{Capture: "a"}); err != nil {
		t.Error(err)
	}
	for _, wanted := range []proto.Wanted{{Capture: "b"}, {Speed: 25000, Devices: []proto.Spec{testSpec("--pcap")}}} {
		err := s.suits(&wanted)
		ours, theirs := connPair(t)
		refuse(ours, err)
		ours.Close()
		var r proto.Reply
		if got := theirs.RecvOnly(&r); got != nil {
			t.Fatal(got)
		}
		theirs.Close()
		if is := r.Code == proto.CodeCapture; err == nil || r.Error != err.Error() || is != (wanted.Capture != "") {
			t.Errorf("%+v: %v, %+v", wanted, err, r)
		}
	}
}

// TestWantedLike: a session may name the adapter that the devices look like, and no other.
func TestWantedLike(t *testing.T) {
	both := []proto.Spec{testSpec("rxe0"), testSpec("mlx5_0")}
	both[1].Like = "connectx5"
	for _, tt := range []struct {
		have   []proto.Spec
		wanted proto.Wanted
		err    string
	}{
		{both[1:], proto.Wanted{Like: "connectx5"}, ""},
		{both[1:], proto.Wanted{Like: "connectx6"}, "--like connectx6: "},
		{both, proto.Wanted{Like: "connectx5"}, "--like connectx5: "}, // rxe0 is not like it
		{both, proto.Wanted{Devices: both, Like: "connectx5"}, ""},
		{both, proto.Wanted{Devices: []proto.Spec{{Name: "mlx5_0", Address: both[1].Address}}}, ""},
		{both, proto.Wanted{Devices: []proto.Spec{{Name: "mlx5_0", Address: both[1].Address, Like: "connectx6"}}}, "--device mlx5_0="},
	} {
		err := (&Server{cfg: Config{Devices: tt.have}}).suits(&tt.wanted)
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%v, wanted %+v: %v, want %q", tt.have, tt.wanted, err, tt.err)
		}
	}
}

// TestLikeSpeed: a port has the adapter's speed, or the lower one that the user chose, and the
// daemon tells runs which adapter it is.
func TestLikeSpeed(t *testing.T) {
	specs := []proto.Spec{testSpec("mlx5_0"), testSpec("mlx5_1")}
	specs[1].Like, specs[1].Speed = "connectx7-400g", 100000
	s := startTest(t, Config{Devices: specs}, nil)
	for i, want := range []struct {
		like string
		gbps float64
	}{{"connectx6", 200}, {"connectx7-400g", 100}} {
		if got := s.hello().Devices[i].Like; string(got) != want.like {
			t.Errorf("device %d is like %s, want %s", i, got, want.like)
		}
		if got := s.Status().Devices[i].Like; string(got) != want.like {
			t.Errorf("the status says that device %d is like %s, want %s", i, got, want.like)
		}
		if got := s.Status().Devices[i].Ports[0].SpeedGbps; got != want.gbps {
			t.Errorf("device %d: %v Gb/s, want %v", i, got, want.gbps)
		}
	}
}

// A session may name the speed that the devices have, and no other.
func TestWantedSpeed(t *testing.T) {
	slow, fast := testSpec("rxe0"), testSpec("rxe1")
	slow.Speed, fast.Speed = 10000, 40000
	unsaid, wrong := slow, slow
	unsaid.Speed, wrong.Speed = 0, 25000
	s := &Server{cfg: Config{Devices: []proto.Spec{slow, fast}}}
	for _, tt := range []struct {
		wanted proto.Wanted
		err    string
	}{
		{proto.Wanted{}, ""},
		{proto.Wanted{Devices: []proto.Spec{unsaid}}, ""},
		{proto.Wanted{Devices: []proto.Spec{slow, fast}}, ""},
		{proto.Wanted{Devices: []proto.Spec{slow}, Speed: 10000}, ""},
		{proto.Wanted{Devices: []proto.Spec{wrong}}, "--device " + wrong.String()},
		{proto.Wanted{Speed: 40000}, "--speed 40: "},
	} {
		err := s.suits(&tt.wanted)
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%+v: %v, want %q", tt.wanted, err, tt.err)
		}
	}
}
