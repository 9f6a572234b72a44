// Command rdmacm connects by address, with package verbsapi/rdmacm: a server echoes one
// message. The peer may be any program that uses librdmacm.
//
// usage: rdmacm [-s] [-sanitize CHECKS] [HOST:PORT]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorxe/gorxe/verbsapi"
	"github.com/gorxe/gorxe/verbsapi/rdmacm"
)

const room = 64 // bytes of a message

func main() {
	server := flag.Bool("s", false, "serve")
	checks := flag.String("sanitize", "", "`checks` for misuse of verbs, as default or all")
	flag.Parse()
	address := "127.0.0.1:7471"
	if flag.NArg() > 0 {
		address = flag.Arg(0)
	}
	if err := run(context.Background(), os.Stdout, address, *server, *checks, nil); err != nil {
		fmt.Fprintln(os.Stderr, "rdmacm:", err)
		os.Exit(1)
	}
}

// run opens the device of the address, connects, and exchanges one message. It calls
// listening when clients can connect.
func run(ctx context.Context, out io.Writer, address string, server bool, checks string, listening func()) (err error) {
	addr, err := rdmacm.ResolveAddr(ctx, address)
	if err != nil {
		return err
	}
	device := verbsapi.Config{Sanitize: checks} // the interface of the default route
	if addr.Addr().IsLoopback() {
		device.Address = addr.Addr()
	}
	e, err := open(device)
	if err != nil {
		return err
	}
	defer func() {
		if m := e.ctx.Misuse(); m.Errors > 0 {
			err = errors.Join(err, errors.New(m.Text))
		}
		e.ctx.Close() //nolint:errcheck // nothing is lost
	}()
	if !server {
		conn, err := rdmacm.Dial(ctx, address, e.config("hello"))
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // the example ends
		fmt.Fprintf(out, "connected to %v\n", conn.RemoteAddr())
		if err := e.send(conn.QP(), "ping"); err != nil {
			return err
		}
		return e.receive(ctx, out)
	}
	l, err := rdmacm.Listen(ctx, address)
	if err != nil {
		return err
	}
	defer l.Close()
	if listening != nil {
		listening()
	}
	req, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	conn, err := req.Accept(ctx, e.config("welcome"))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the example ends
	fmt.Fprintf(out, "connected from %v\n", conn.RemoteAddr())
	if err := e.receive(ctx, out); err != nil {
		return err
	}
	if err := e.send(conn.QP(), "pong"); err != nil {
		return err
	}
	<-conn.Done()
	return nil
}
