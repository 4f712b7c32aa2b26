package app

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// probeEvery is how often a starting manager probes an API server that is not ready.
	probeEvery = 2 * time.Second

	// probeTimeout is how long one probe may take.
	probeTimeout = 10 * time.Second
)

// untilReady blocks until the API server is ready. A manager that loses its lease with the API server ends, and the
// kubelet starts it again. If the manager ended without an API server, the back-off of the kubelet would grow, and the
// webhooks would be missing for up to five minutes after the API server has returned.
//
// It probes /readyz, which every authenticated user may read (ClusterRole system:public-info-viewer). The answers
// Forbidden and NotFound come from an API server that runs, and count as ready. It returns an error for Unauthorized.
func untilReady(ctx context.Context, config *rest.Config, every time.Duration) error {
	limited := rest.CopyConfig(config)
	limited.Timeout = probeTimeout
	server, err := discovery.NewDiscoveryClientForConfig(limited)
	if err != nil {
		return fmt.Errorf("probing the API server: %w", err)
	}
	var logged string
	return wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		err := server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		switch {
		case err == nil, apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsUnauthorized(err):
			return false, fmt.Errorf("probing the API server at %s: %w", config.Host, err)
		}
		if problem := err.Error(); problem != logged {
			logged = problem
			ctrl.Log.Info("Waiting until the API server is ready", "server", config.Host, "problem", problem)
		}
		return false, nil
	})
}
