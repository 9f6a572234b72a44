package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorxe/gorxe/internal/quota"
	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/service/tenant"
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
func (s *Server) sendText(ctx context.Context, conn *proto.Conn, u *tenant.Tenant, made func() any) {
	if !s.begin(ctx, u) {
		refuse(conn, fmt.Errorf("%w: another program of this user, as gorxe status, has not read its answer", proto.ErrLimit))
		return
	}
	var cost quota.Cost
	defer func() {
		<-u.Text
		u.Budget.Give(cost)
	}()
	text, err := json.Marshal(made())
	if err != nil {
		refuse(conn, err)
		return
	}
	cost = quota.Cost{Memory: int64(len(text)) + socketBuffer}
	u.Budget.Charge(cost)
	conn.SendText(text)
}

// begin waits until the user has no other answer, for textWait at most.
func (s *Server) begin(ctx context.Context, u *tenant.Tenant) bool {
	select {
	case u.Text <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(cmp.Or(s.cfg.textWait, textWait))
	defer wait.Stop()
	select {
	case u.Text <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}
