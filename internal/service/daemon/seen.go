package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gorxe/gorxe/internal/engine"
	"github.com/gorxe/gorxe/internal/kernel/tree"
	"github.com/gorxe/gorxe/internal/memfd"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/rocev2"
)

// SeenOf returns what programs find of the devices of a daemon that is started with specs.
// It starts no device.
func SeenOf(specs []proto.Spec) ([]proto.Seen, error) {
	list := make([]tree.Device, 0, len(specs))
	for i, spec := range specs {
		dev, info, err := engine.Describe(engineConfig(spec))
		if err != nil {
			return nil, fmt.Errorf("device %v: %w", spec, err)
		}
		defer dev.Close() //nolint:errcheck // nothing was made in it
		v := &view{spec: spec, index: i, created: time.Now(), dev: dev, netdev: info.Name, counters: new(rocev2.Counters)}
		list = append(list, v.sysfs())
	}
	return tree.New(list).Seen(), nil
}

// sendSeen answers with what programs find of the devices now.
func (s *Server) sendSeen(conn *proto.Conn) { sendText(conn, "gorxe-seen", s.tree.Seen()) }

// sendText answers with JSON in a memfd, because it may be longer than a message.
func sendText(conn *proto.Conn, name string, v any) {
	fd, err := memfd.Create(name)
	if err != nil {
		refuse(conn, fmt.Errorf("memfd: %w", err))
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := json.NewEncoder(f).Encode(v); err != nil {
		refuse(conn, err)
		return
	}
	conn.Send(proto.Reply{Version: proto.ProtocolVersion}, fd) //nolint:errcheck // the client's loss
}
