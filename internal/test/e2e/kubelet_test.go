package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// kubelet is the part of Kubernetes' kubelet that device plugins talk to, over gRPC: HTTP/2, with
// messages of protobuf that have 5 bytes in front (deviceplugin/v1beta1/api.proto).
type kubelet struct {
	registered chan []field // the RegisterRequest
}

// field is a field of a message whose value has a length: text, or another message.
type field struct {
	number int
	value  []byte
}

// fields takes a message apart. Numbers are left out.
func fields(b []byte) (list []field, err error) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return nil, io.ErrUnexpectedEOF
		}
		b = b[n+m:]
		if tag&7 == 0 {
			continue
		}
		if tag&7 != 2 || length > uint64(len(b)) {
			return nil, fmt.Errorf("field %d of type %d", tag>>3, tag&7)
		}
		list = append(list, field{int(tag >> 3), b[:length]})
		b = b[length:]
	}
	return list, nil
}

// of are the values of a field, also of a field within these.
func of(list []field, numbers ...int) (values [][]byte) {
	for _, f := range list {
		switch {
		case f.number != numbers[0]:
		case len(numbers) == 1:
			values = append(values, f.value)
		default:
			if inner, err := fields(f.value); err == nil {
				values = append(values, of(inner, numbers[1:]...)...)
			}
		}
	}
	return values
}

// framed is a message as gRPC sends it.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// unframe reads one message.
func unframe(r io.Reader) ([]field, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:])&0xfffff)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return fields(b)
}

// serveKubelet listens for plugins that register themselves.
func serveKubelet(t *testing.T, socket string) *kubelet {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{registered: make(chan []field, 1)}
	s := &http.Server{Handler: k, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { s.Close() })
	return k
}

// ServeHTTP answers Registration.Register.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	status := "12" // unimplemented
	if request, err := unframe(r.Body); err == nil && r.URL.Path == "/v1beta1.Registration/Register" {
		status = "0"
		w.Write(framed(nil)) //nolint:errcheck // the plugin says what it misses
		select {
		case k.registered <- request:
		default:
		}
	}
	w.Header().Set("Grpc-Status", status)
}

// callPlugin makes a call of a plugin, and returns the first message of the answer.
func callPlugin(ctx context.Context, socket, method string, message []byte) ([]field, error) {
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1beta1.DevicePlugin/"+method, bytes.NewReader(framed(message)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return unframe(resp.Body)
}
