package metal3cluster

import (
	"bytes"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

const (
	// DefaultInterval is the time between two probes of an Ironic endpoint. No event announces a change of its holder.
	DefaultInterval = time.Second

	// nodesEvery is the time between two lists of all nodes of Ironic. Probes in between only identify the Ironic.
	nodesEvery = 10 * time.Second

	// endpointLimit is the time limit of a probe of an endpoint.
	endpointLimit = 5 * time.Second
)

// Probe probes an endpoint once. The nodes of the last observation remain valid if the same Ironic answers. Nil lists
// all nodes.
type Probe func(ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation) ironicapi.Observation

// ProbeIronic probes an endpoint over the network.
func ProbeIronic(
	ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation,
) ironicapi.Observation {
	client, err := ironicapi.New(endpoint)
	if err != nil {
		return ironicapi.Observation{Answer: pivot.Broken, Detail: err.Error()}
	}
	return client.Observe(ctx, last)
}

// EndpointProber probes Ironic endpoints.
type EndpointProber struct {
	*prober[endpointTarget, endpointResult]
}

// endpointTarget is an Ironic endpoint.
type endpointTarget struct {
	ironicapi.Endpoint

	// listsNodes lists all nodes with each probe. It is true while hosts of the cluster are missing in Ironic.
	listsNodes bool
}

// endpointResult is the result of one probe.
type endpointResult struct {
	ironicapi.Observation

	// listed is the time of the last list of all nodes.
	listed time.Time
}

// NewEndpointProber returns a prober that must be started.
func NewEndpointProber(probe Probe, now clock.WithTicker, interval time.Duration) *EndpointProber {
	return &EndpointProber{newProber(probing[endpointTarget, endpointResult]{
		probe: func(ctx context.Context, _ types.NamespacedName, target endpointTarget, last *endpointResult,
		) endpointResult {
			began, known := now.Now(), (*ironicapi.Observation)(nil)
			result := endpointResult{listed: began}
			if last != nil && !target.listsNodes && began.Sub(last.listed) < nodesEvery {
				known, result.listed = &last.Observation, last.listed
			}
			result.Observation = probe(ctx, target.Endpoint, known)
			probeSeconds.WithLabelValues(string(result.Answer)).Observe(now.Since(began).Seconds())
			return result
		},
		isSame: func(before, after endpointTarget) bool {
			return before.URL == after.URL && before.Username == after.Username && before.Password == after.Password &&
				bytes.Equal(before.Authority, after.Authority)
		},
		isUrgent: func(before, after endpointTarget) bool { return !before.listsNodes && after.listsNodes },
		differs: func(before, after endpointResult) bool {
			return !equality.Semantic.DeepEqual(before.Observation, after.Observation)
		},
		limit: endpointLimit,
	}, now, interval)}
}
