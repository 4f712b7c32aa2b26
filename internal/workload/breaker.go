package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestLimit is how long a worker of a controller waits for a workload cluster.
const requestLimit = 3 * time.Second

// retriesAtOnce is how many workers may wait at the same time for clusters that did not answer their last request.
const retriesAtOnce = 4

// ErrNoAnswer is the error while the API server of a connected workload cluster does not answer requests.
var ErrNoAnswer = errors.New("the API server of the workload cluster did not answer in time")

// request is the kind of a request. An API server may answer a kind, and none of the kinds after it: a cached read
// requires no API server, and a write requires etcd and the webhooks.
type request int

const (
	cachedRead request = iota
	liveRead
	write
)

// breaker bounds the time that workload clusters without an answer cost the workers of a controller. It relies on the
// health probes of the ClusterCache, which end the connection after several failures.
//
//	connection   last request       health probe since then   next request
//	closed                                                    returns ErrUnreachable at once
//	open         was answered                                 is sent
//	open         was not answered   none succeeded            returns ErrNoAnswer at once
//	open         was not answered   one succeeded             is sent; all others return ErrNoAnswer until it is answered
//
// The last row is for requests of the same kind as the one without an answer, or a later kind. Earlier kinds are sent,
// and their answers change nothing. Of the requests in that row, at most retriesAtOnce to all clusters together are
// sent at the same time.
type breaker struct {
	clusters clustercache.ClusterCache

	mutex sync.Mutex
	// hanging holds the clusters that did not answer. Retries counts the requests to them.
	hanging map[types.NamespacedName]hang
	retries int
}

// target is the cluster and the kind of a request.
type target struct {
	cluster types.NamespacedName
	request request
}

// hang is a request without an answer.
type hang struct {
	request request

	// probed is the last successful health probe before the request.
	probed time.Time
}

// live reads with a live client. It returns ErrUnreachable without a connection.
func (b *breaker) live(
	ctx context.Context, cluster types.NamespacedName, read func(context.Context, client.Client) error,
) error {
	return bounded(ctx, b, target{cluster, liveRead}, b.clusters.GetUncachedClient, read)
}

// write writes with a live client, and may read before. It returns ErrUnreachable without a connection.
func (b *breaker) write(
	ctx context.Context, cluster types.NamespacedName, send func(context.Context, client.Client) error,
) error {
	return bounded(ctx, b, target{cluster, write}, b.clusters.GetUncachedClient, send)
}

// patch writes a merge patch of a node. The error contains what.
func (b *breaker) patch(
	ctx context.Context, cluster types.NamespacedName, node string, changes map[string]any, what string,
) error {
	patch, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("writing %s of Node %s: %w", what, node, err)
	}
	return b.write(ctx, cluster, func(ctx context.Context, c client.Client) error {
		target := &corev1.Node{}
		target.Name = node
		return wrap(c.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)), "writing %s of Node %s", what, node)
	})
}

// cached calls read with a cached reader, which blocks until the cache has synced. It returns ErrUnreachable without a
// connection.
func (b *breaker) cached(
	ctx context.Context, cluster types.NamespacedName, read func(context.Context, client.Reader) error,
) error {
	return bounded(ctx, b, target{cluster, cachedRead}, b.clusters.GetReader, read)
}

// bounded calls send with a connection and a time limit, unless the cluster is known not to answer. It returns
// ErrUnreachable without a connection: the ClusterCache keeps the time of the last probe of a closed one.
func bounded[C any](
	ctx context.Context, b *breaker, to target, connection func(context.Context, client.ObjectKey) (C, error),
	send func(context.Context, C) error,
) error {
	health := b.clusters.GetHealthCheckingState(ctx, to.cluster)
	connected, err := connection(ctx, to.cluster)
	if err != nil {
		return orNotTried(unreachable(err), health)
	}
	sent := hang{to.request, health.LastProbeSuccessTime}
	may, retries := b.enter(to.cluster, sent)
	if !may {
		return ErrNoAnswer
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestLimit, ErrNoAnswer)
	defer cancel()
	err = send(ctx, connected)
	answered := err == nil || !errors.Is(context.Cause(ctx), ErrNoAnswer)
	b.leave(to.cluster, sent, retries, answered)
	if !answered {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return err
}

// enter returns whether a request may be sent, and whether it retries a request without an answer.
func (b *breaker) enter(cluster types.NamespacedName, sent hang) (may, retries bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	last, hangs := b.hanging[cluster]
	switch {
	case !hangs:
		return true, false
	case last.probed.Equal(sent.probed):
		return false, false
	case sent.request < last.request:
		return true, false
	case b.retries == retriesAtOnce:
		return false, true
	}
	b.hanging[cluster] = hang{last.request, sent.probed}
	b.retries++
	return true, true
}

func (b *breaker) leave(cluster types.NamespacedName, sent hang, retries, answered bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if retries {
		b.retries--
	}
	last := b.hanging[cluster]
	switch {
	case answered && sent.request >= last.request:
		delete(b.hanging, cluster)
	case answered:
	case b.hanging == nil:
		b.hanging = map[types.NamespacedName]hang{cluster: sent}
	default:
		b.hanging[cluster] = hang{max(sent.request, last.request), sent.probed}
	}
}
