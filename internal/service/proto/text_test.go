package proto

import (
	"strings"
	"testing"
)

// A text is sent when the client has confirmed it. What the client says next is a request of
// its own.
func TestSendTextConfirmed(t *testing.T) {
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	server, err := NewConn(a)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := NewConn(b)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := strings.Repeat("x", 3*partSize)
	sent := make(chan Request, 1)
	go func() {
		defer close(sent)
		var req Request
		if server.RecvOnly(&req) != nil {
			return
		}
		server.SendText([]byte(`"` + text + `"`))
		if server.RecvOnly(&req) == nil {
			sent <- req
		}
	}()
	client := &Client{Conn: conn}
	var got string
	if err := client.text(OpStatus, &got); err != nil || got != text {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := conn.Send(Request{Version: ProtocolVersion, Op: OpSeen}); err != nil {
		t.Fatal(err)
	}
	if req := <-sent; req.Op != OpSeen {
		t.Errorf("after the text came %q", req.Op)
	}
}
