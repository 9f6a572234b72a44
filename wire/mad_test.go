package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func TestMADHeader(t *testing.T) {
	h := MADHeader{
		Class: MADClassPerformance, ClassVersion: 1, Method: MADGetResp, Status: 0x1234, ClassData: 0x5678,
		TID: 0x1122334455667788, Attribute: 0x9abc, Modifier: 0xdeadbeef,
	}
	m := MAD(bytes.Repeat([]byte{0xff}, MADLen))
	m.Init(&h)
	const want = "0104018112345678" + "1122334455667788" + "9abc0000deadbeef"
	if got := hex.EncodeToString(m[:MADHeaderLen]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !bytes.Equal(m.Data(), make([]byte, MADDataLen)) {
		t.Errorf("data % x is not zero", m.Data())
	}
	v, err := ParseMAD(m[:])
	if err != nil || v != &m || v.Header() != h {
		t.Errorf("parsed %+v, %v", v, err)
	}
	if got := v.String(); got != "performance management GetResp, attribute 0x9abc, TID 0x1122334455667788" {
		t.Errorf("String: %s", got)
	}
}

// An answer differs from its request in method and status only.
func TestMADAnswer(t *testing.T) {
	var m MAD
	for i := range m {
		m[i] = byte(i)
	}
	want := m
	want[madOffMethod], want[madOffStatus], want[madOffStatus+1] = 0x81, 0x00, 0x0c
	m.Answer(MADGetResp, MADUnsupportedAttribute)
	if m != want || m.Status() != 0x0c {
		t.Errorf("status %#x of % x", m.Status(), m)
	}
}

func TestParseMADErrors(t *testing.T) {
	whole := make([]byte, MADLen+1)
	whole[0] = 1
	for n := range whole {
		if _, err := ParseMAD(whole[:n]); (err == nil) != (n == MADLen) || err != nil && !errors.Is(err, ErrMADLength) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for version := range 256 {
		whole[0] = byte(version)
		if _, err := ParseMAD(whole[:MADLen]); (err == nil) != (version == 1) || err != nil && !errors.Is(err, ErrMADVersion) {
			t.Errorf("base version %d: %v", version, err)
		}
	}
}

func TestMADNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{MADClassSubnetAdmin.String(), "subnet administration"},
		{MADClassCM.String(), "communication management"},
		{MADClass(0x32).String(), "class 0x32"},
		{MADGet.String(), "Get"}, {MADSet.String(), "Set"}, {MADSend.String(), "Send"},
		{MADMethod(0x12).String(), "method 0x12"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
