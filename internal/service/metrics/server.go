package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/gorxe/gorxe/internal/service/proto"
	"github.com/gorxe/gorxe/internal/sys/buildinfo"
)

// Anybody who reaches the address may ask. So what that takes is bounded.
const (
	maxConnections = 16
	maxAnswers     = 2 // at once; further ones wait, and are 503 after answerLimit
	maxHeader      = 16 << 10
	requestLimit   = 10 * time.Second
	answerLimit    = 30 * time.Second
	idleLimit      = 2 * time.Minute
)

// Listen opens the address, HOST:PORT.
func Listen(address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("address %s is in use: choose another port, or stop what listens there (ss -ltnp)", address)
	case err != nil:
		return nil, fmt.Errorf("address %q: %w: HOST:PORT is needed, as 127.0.0.1:9879", address, err)
	}
	return ln, nil
}

// Server answers requests for /metrics until it is closed.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve answers at ln. The status is asked for at each request, by one goroutine at a time or
// more. A nil log means none.
func Serve(ln net.Listener, status func() *proto.Status, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return serve(ln, collector{status}, logger)
}

func serve(ln net.Listener, c prometheus.Collector, logger *slog.Logger) *Server {
	registry := prometheus.NewRegistry()
	build := buildinfo.Get()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gorxe_build_info", Help: "This build. The value is 1.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit}})
	info.Set(1)
	registry.MustRegister(info, c, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	answer := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	})
	mux.Handle("GET /metrics", http.TimeoutHandler(inTurn(answer), answerLimit, "the daemon has too many requests for metrics: ask again later\n"))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "gorxe: the metrics are at /metrics")
	})
	s := &Server{
		http: &http.Server{
			Handler: protected(mux), ConnContext: withConn, MaxHeaderBytes: maxHeader,
			ReadTimeout: requestLimit, WriteTimeout: answerLimit + requestLimit, IdleTimeout: idleLimit,
			ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do wrong
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(newListener(ln)); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics are not served any more", "address", ln.Addr(), "error", err)
		}
	}()
	return s
}

// Close ends the server and the requests under way.
func (s *Server) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.http.Shutdown(ctx) //nolint:errcheck // it closes the listener at once
	s.http.Close()       //nolint:errcheck // and this the connections
	<-s.done
}
