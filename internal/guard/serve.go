package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// DefaultListen is the address of metrics and health checks, reachable only from the node.
	DefaultListen = "127.0.0.1:9650"

	// beatPatience is the maximum age of the last decision of a live guard.
	beatPatience = 10 * time.Second

	// listenAgain is the time before the next attempt to listen.
	listenAgain = 10 * time.Second
)

// serve serves metrics and health checks until the context ends. If the port is taken, serve retries.
func serve(ctx context.Context, listen string, facts *facts, log *slog.Logger) {
	server := &http.Server{Handler: handler(facts), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	for ctx.Err() == nil {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", listen)
		if err == nil {
			err = server.Serve(listener)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return
		}
		log.Error("Cannot serve metrics and health", "address", listen, "error", err)
		pause(ctx, listenAgain)
	}
}

func handler(facts *facts) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(facts.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2}))
	mux.HandleFunc("GET /livez", answer(facts.checkDecisions))
	mux.HandleFunc("GET /readyz", answer(facts.ready))
	return mux
}

func answer(check func(now time.Time) error) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) {
		if err := check(time.Now()); err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(writer, "ok")
	}
}

// checkDecisions returns an error if the guard makes no decisions. It ignores keepalived, which the guard restarts.
func (f *facts) checkDecisions(now time.Time) error {
	if age := now.Sub(f.snapshot().beat); age > beatPatience {
		return fmt.Errorf("the guard has not updated its files for %s", age.Round(time.Second))
	}
	return nil
}

// ready returns an error unless this node takes part, as holder or as standby.
func (f *facts) ready(now time.Time) error {
	current := f.snapshot()
	switch {
	case f.checkDecisions(now) != nil:
		return f.checkDecisions(now)
	case current.unusable != nil:
		return fmt.Errorf("the settings cannot be used: %w", current.unusable)
	case current.seen.Index == 0:
		return errors.New("the network interface does not exist")
	case !current.running && current.refusal != nil:
		return fmt.Errorf("keepalived cannot be configured: %w", current.refusal)
	case !current.running:
		return errors.New("keepalived does not run")
	default:
		return nil
	}
}
