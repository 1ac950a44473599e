package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"emq/cmd/emq/exporter"
)

func newExporter(a *app) *cobra.Command {
	var listen string
	var named int
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "show Prometheus the figures of the queues",
		Long: `Shows Prometheus the figures of the queues, and all numbers of the server's INFO emq, under /metrics. What there is, and
which rights the user needs: docs/operations.md, "In Prometheus".`,
		Example: `  emq exporter --listen 127.0.0.1:9178`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if named < 0 || every < 0 {
				return usage("--queues and --every are not less than 0")
			}
			c, err := a.conn(cmd.Context())
			if err != nil {
				return err
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(exporter.New(c, named, every))
			mux := http.NewServeMux()
			mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
			return a.serve(cmd.Context(), listen, "/metrics", mux)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9178", "the address of /metrics")
	f.IntVar(&named, "queues", 100, "how many queues have figures of their own; those of all others are summed")
	f.DurationVar(&every, "every", 10*time.Second, "the server is asked at most so often, however many scrape")
	return cmd
}

// serve serves HTTP until the context ends, and then gives running requests some seconds to complete.
func (a *app) serve(ctx context.Context, listen, path string, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return refused("--listen: %w", err)
	}
	s := bounded(h)
	s.BaseContext = func(net.Listener) context.Context { return ctx }
	fmt.Fprintf(a.err, "http://%s%s\n", l.Addr(), path)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return refused("%w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(last) != nil {
		_ = s.Close()
	}
	return nil
}

// bounded is an HTTP server with timeouts for everything: the rest of a request, which needs no password yet, a client
// that does not read, and the next request. A stream has bounds of its own.
func bounded(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
}
