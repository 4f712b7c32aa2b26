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
	// probeEvery is the interval between probes of the API server.
	probeEvery = 2 * time.Second

	// probeTimeout is the timeout of one probe.
	probeTimeout = 10 * time.Second
)

// untilReady blocks until the API server is ready. If the manager exited instead, the restart back-off of the kubelet
// would delay the webhooks for up to five minutes after the API server returns.
//
// It probes /readyz, which every authenticated user may read (ClusterRole system:public-info-viewer). Forbidden and
// NotFound count as ready, because the API server answered. It returns an error for Unauthorized.
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
