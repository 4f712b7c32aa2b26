package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestLimit is how long a worker of a controller waits for a workload cluster.
const requestLimit = 3 * time.Second

// ErrNoAnswer is the error while the API server of a connected workload cluster does not answer requests.
var ErrNoAnswer = errors.New("the API server of the workload cluster did not answer in time")

// breaker bounds the time that workload clusters without an answer cost the workers of a controller. It relies on the
// health probes of the ClusterCache, which end the connection after several failures.
//
//	connection   last request       health probe since then   next request
//	closed                                                    returns ErrUnreachable at once
//	open         was answered                                 is sent
//	open         was not answered   none succeeded            returns ErrNoAnswer at once
//	open         was not answered   one succeeded             is sent; all others return ErrNoAnswer until it is answered
type breaker struct {
	clusters clustercache.ClusterCache

	mutex sync.Mutex
	// hanging holds the clusters that did not answer, with their last successful health probe before the request.
	hanging map[types.NamespacedName]time.Time
}

// live calls send with a live client. It returns ErrUnreachable without a connection.
func (b *breaker) live(
	ctx context.Context, cluster types.NamespacedName, send func(context.Context, client.Client) error,
) error {
	return bounded(ctx, b, cluster, b.clusters.GetUncachedClient, send)
}

// cached calls read with a cached reader, which blocks until the cache has synced. It returns ErrUnreachable without a
// connection.
func (b *breaker) cached(
	ctx context.Context, cluster types.NamespacedName, read func(context.Context, client.Reader) error,
) error {
	return bounded(ctx, b, cluster, b.clusters.GetReader, read)
}

// bounded calls send with a connection and a time limit, unless the cluster is known not to answer. It returns
// ErrUnreachable without a connection: the ClusterCache keeps the time of the last probe of a closed one.
func bounded[C any](
	ctx context.Context, b *breaker, cluster types.NamespacedName,
	connection func(context.Context, client.ObjectKey) (C, error), send func(context.Context, C) error,
) error {
	health := b.clusters.GetHealthCheckingState(ctx, cluster)
	connected, err := connection(ctx, cluster)
	if err != nil {
		return orNotTried(unreachable(err), health)
	}
	probed := health.LastProbeSuccessTime
	if !b.enter(cluster, probed) {
		return ErrNoAnswer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, ErrNoAnswer)
	defer cancel()
	err = send(ctx, connected)
	answered := err == nil || !errors.Is(context.Cause(ctx), ErrNoAnswer)
	b.leave(cluster, probed, answered)
	if !answered {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}

// enter returns true if a request may be sent.
func (b *breaker) enter(cluster types.NamespacedName, probed time.Time) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	last, hangs := b.hanging[cluster]
	if hangs && last.Equal(probed) {
		return false
	}
	if hangs {
		b.hanging[cluster] = probed
	}
	return true
}

func (b *breaker) leave(cluster types.NamespacedName, probed time.Time, answered bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case answered:
		delete(b.hanging, cluster)
	case b.hanging == nil:
		b.hanging = map[types.NamespacedName]time.Time{cluster: probed}
	default:
		b.hanging[cluster] = probed
	}
}
