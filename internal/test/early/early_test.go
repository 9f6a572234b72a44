package early

import "testing"

func TestClient(t *testing.T) {
	for _, tt := range []struct {
		code int
		out  string
		want bool
	}{
		{1, "Unexpected CM event bl blka 8\nRDMA_CM_EVENT_REJECTED; error: 8", true},
		{1, "event RDMA_CM_EVENT_UNREACHABLE; error: 1", true},
		{1, "unexpected event from RDMA CM: Event rejected", true},
		{1, "RDMA_CM_EVENT_UNREACHABLE; error: 110", false}, // -ETIMEDOUT, without its sign
		{1, "RDMA_CM_EVENT_REJECTED; error: 28", false},
		{0, "RDMA_CM_EVENT_REJECTED; error: 8", false},
	} {
		if got := Client(tt.code, tt.out); got != tt.want {
			t.Errorf("exit status %d, %q: %v", tt.code, tt.out, got)
		}
	}
}
