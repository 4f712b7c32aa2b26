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
	// lookEvery is how often a manager that starts asks for an API server that is not ready.
	lookEvery = 2 * time.Second

	// lookPatience is how long one answer may take.
	lookPatience = 10 * time.Second
)

// untilReady waits until the API server says that it is ready. A manager that loses its lease because the API server is
// away ends, and is started again while it still is. If it ended once more each time, the kubelet would let it wait
// longer and longer, and for up to five minutes after the API server is back nobody would serve its webhooks.
//
// It asks /readyz, which every authenticated user may read (ClusterRole system:public-info-viewer). An answer that says
// that the question is not allowed or not known comes from an API server that is there, so it counts as ready.
func untilReady(ctx context.Context, config *rest.Config, every time.Duration) error {
	patient := rest.CopyConfig(config)
	patient.Timeout = lookPatience
	server, err := discovery.NewDiscoveryClientForConfig(patient)
	if err != nil {
		return fmt.Errorf("looking for the API server: %w", err)
	}
	var told string
	return wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		err := server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		switch {
		case err == nil, apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return true, nil
		case apierrors.IsUnauthorized(err):
			return false, fmt.Errorf("looking for the API server at %s: %w", config.Host, err)
		}
		if problem := err.Error(); problem != told {
			told = problem
			ctrl.Log.Info("Waiting until the API server is ready", "server", config.Host, "problem", problem)
		}
		return false, nil
	})
}
