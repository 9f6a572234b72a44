package testenv

import (
	"net"
	"testing"
)

// TestOwnNetwork: a port that is taken here is free there, also for a part of a test.
func TestOwnNetwork(t *testing.T) {
	t.Run("a part (of it)", func(t *testing.T) {
		there := OwnNetwork(t)
		c, err := net.ListenPacket("udp", "[::1]:4791")
		if err == nil {
			defer c.Close()
		}
		switch {
		case !there && err == nil: // free here, so hold it and look again
			OwnNetwork(t)
		case there && err != nil:
			t.Error(err)
		}
	})
}
