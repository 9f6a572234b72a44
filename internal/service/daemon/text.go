package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
)

const (
	// textWait is how long a request for a text waits until the user has read the last one.
	textWait = 5 * time.Second
	// socketBuffer is what the kernel holds of a text that a client does not read: the
	// default of net.core.wmem_default.
	socketBuffer = 208 << 10
)

// sendText answers with what is made, as JSON. A user has one such answer at a time. It is
// charged to the user until the client has read it.
func (s *Server) sendText(ctx context.Context, conn *proto.Conn, u *tenant, made func() any) {
	wait := time.NewTimer(cmp.Or(s.cfg.textWait, textWait))
	defer wait.Stop()
	select {
	case u.text <- struct{}{}:
		defer func() { <-u.text }()
	case <-wait.C:
		refuse(conn, fmt.Errorf("%w: another program of this user, as gorxe status, has not read its answer", proto.ErrLimit))
		return
	case <-ctx.Done():
		return
	}
	text, err := json.Marshal(made())
	if err != nil {
		refuse(conn, err)
		return
	}
	cost := quota.Cost{Memory: int64(len(text)) + socketBuffer}
	u.budget.Charge(cost)
	defer u.budget.Give(cost)
	conn.SendText(text)
}
