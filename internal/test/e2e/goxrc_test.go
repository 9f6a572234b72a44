package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/rdmacm"
)

// TestGoXRC: a Go program connects XRC queue pairs with rdma_xserver and rdma_xclient. These send
// one message of 16 bytes. The private data of the answer is the number of the SRQ, in network
// order.
func TestGoXRC(t *testing.T) {
	besideOthers(t)
	need(t, "rdma_xserver", "rdma_xclient")
	if native != "" || !selection.takes(standard) {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, b := twoHosts(t, 4500)
	d := startDaemon(t, a, "--device", "mlx5_0=eth0")
	program := func(args ...string) *proc {
		return start(t, b, []string{roleEnv + "=xrc"}, append([]string{self}, args...)...)
	}
	port := a.nextPort()
	t.Run("client", func(t *testing.T) {
		server := d.run(t, "rdma_xserver", "-p", strconv.Itoa(port), "-c", "x")
		topology{daemon: d}.await(t, listensCM, server, port)
		program(fmt.Sprint(a.addr, ":", port)).ok()
		if out := server.ok(); !strings.Contains(out, "rdma_xserver: end 0") {
			t.Error(out)
		}
	})
	t.Run("server", func(t *testing.T) {
		server := program()
		var at string
		if !until(programLimit, func() bool {
			_, at, _ = strings.Cut(server.out.String(), "listens at port ")
			return strings.HasSuffix(at, "\n") || server.ended()
		}) || server.ended() {
			t.Fatal(server.describe())
		}
		out := d.run(t, "rdma_xclient", "-s", b.addr, "-p", strings.TrimSpace(at), "-c", "x").ok()
		if !strings.Contains(out, "rdma_xclient: end 0") {
			t.Error(out)
		}
		if out := server.ok(); !strings.Contains(out, "received 16 bytes") {
			t.Error(out)
		}
	})
}

// playXRC sends a message by XRC to an address, or without one receives a message.
func playXRC(args []string) int {
	if err := exchangeOneXRC(args); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return 0
}

func exchangeOneXRC(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	dev, err := verbsapi.Open(verbsapi.Config{Interface: "eth0"})
	if err != nil {
		return err
	}
	defer dev.Close() //nolint:errcheck // the process ends
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(4, nil)
	if err != nil {
		return err
	}
	mr, err := pd.RegMR(make([]byte, 16), verbsapi.AccessLocalWrite)
	if err != nil {
		return err
	}
	sgl := []verbsapi.SGE{mr.SGE(0, 16)}
	connect := func() (*rdmacm.Conn, error) {
		return rdmacm.Dial(ctx, args[0], rdmacm.Config{PD: pd, QP: verbsapi.QPInitAttr{Type: verbsapi.QPXRCIni, SendCQ: cq,
			Cap: verbsapi.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}})
	}
	if len(args) == 0 {
		connect = func() (*rdmacm.Conn, error) { return acceptXRC(ctx, pd, cq, sgl) }
	}
	c, err := connect()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if _, err := c.QP().PostSend([]verbsapi.SendWR{{Op: verbsapi.WRSend, Flags: verbsapi.SendSignaled, SGL: sgl,
			XRCSRQN: binary.BigEndian.Uint32(c.PrivateData())}}); err != nil {
			return err
		}
	}
	var wcs [1]verbsapi.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return err
	}
	if wcs[0].Status != verbsapi.WCSuccess {
		return fmt.Errorf("completion: %v", wcs[0].Status)
	}
	fmt.Printf("received %d bytes\n", wcs[0].ByteLen)
	return c.Close()
}

// acceptXRC accepts a connection, with an SRQ that has a receive.
func acceptXRC(ctx context.Context, pd *verbsapi.PD, cq *verbsapi.CQ, sgl []verbsapi.SGE) (*rdmacm.Conn, error) {
	x, err := pd.Context().OpenXRCD(nil)
	if err != nil {
		return nil, err
	}
	srq, err := pd.Context().CreateSRQEx(verbsapi.SRQInitAttrEx{Type: verbsapi.SRQXRC, PD: pd, XRCD: x, CQ: cq,
		SRQAttr: verbsapi.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	if err != nil {
		return nil, err
	}
	num, err := srq.Num()
	if err != nil {
		return nil, err
	}
	if _, err := srq.PostRecv([]verbsapi.RecvWR{{SGL: sgl}}); err != nil {
		return nil, err
	}
	l, err := rdmacm.ListenXRC(ctx, ":0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	fmt.Println("listens at port", l.Addr().Port())
	r, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return r.Accept(ctx, rdmacm.Config{XRCD: x, PrivateData: binary.BigEndian.AppendUint32(nil, num)})
}
