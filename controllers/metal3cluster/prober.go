package metal3cluster

import (
	"bytes"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

const (
	// DefaultInterval is how often an endpoint is looked at. Nothing announces that its holder has changed.
	DefaultInterval = time.Second

	// nodesEvery is how often all nodes are listed. In between it is enough to know who answers.
	nodesEvery = 10 * time.Second

	// lookLimit is how long one look may take.
	lookLimit = 5 * time.Second

	// newsKept is how many changed endpoints can be waiting to be reconciled. One that does not fit is seen when its
	// interval is over.
	newsKept = 1024
)

// Ask asks an endpoint once. Last is an earlier answer whose nodes still count if the same Ironic answers; nil asks for
// everything.
type Ask func(ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation) ironicapi.Observation

// AskIronic asks over the network.
func AskIronic(
	ctx context.Context, endpoint ironicapi.Endpoint, last *ironicapi.Observation,
) ironicapi.Observation {
	client, err := ironicapi.New(endpoint)
	if err != nil {
		return ironicapi.Observation{Answer: ironicapi.Broken, Detail: err.Error()}
	}
	return client.Observe(ctx, last)
}

// Lookout looks at endpoints beside the reconciles, so that an endpoint that does not answer keeps nobody waiting: what
// is reconciled is the result of the last look. A result that differs from the one before wakes its Metal3Cluster.
type Lookout struct {
	ask   Ask
	clock clock.PassiveClock

	// rest is how long an endpoint is left alone after a look.
	rest time.Duration
	news chan event.GenericEvent

	mutex  sync.Mutex
	sights map[types.NamespacedName]*sight
}

// sight is what is known of one endpoint.
type sight struct {
	endpoint ironicapi.Endpoint

	// seen is the last result. Nil until there is one.
	seen *ironicapi.Observation

	// looked is when the last look began, looking says that it has not ended. listed is when the last look began that
	// asked for everything.
	looked, listed time.Time
	looking        bool
}

// NewLookout makes a lookout for endpoints that are asked about in an interval.
func NewLookout(ask Ask, now clock.PassiveClock, interval time.Duration) *Lookout {
	return &Lookout{
		// Half of the interval tells a Metal3Cluster whose time has come from one that was woken by the result.
		ask: ask, clock: now, rest: interval / 2,
		news: make(chan event.GenericEvent, newsKept), sights: map[types.NamespacedName]*sight{},
	}
}

// See returns what was seen of the endpoint of a Metal3Cluster at the last look, and begins another look if that was
// some time ago. Nothing is known of an endpoint that was never looked at, or that is another one than before. Eager
// asks for everything at each look, while something is still missing there.
func (l *Lookout) See(
	ctx context.Context, cluster types.NamespacedName, endpoint ironicapi.Endpoint, eager bool,
) (seen ironicapi.Observation, known bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	current := l.sights[cluster]
	if current == nil || !same(current.endpoint, endpoint) {
		current = &sight{endpoint: endpoint}
		l.sights[cluster] = current
	}
	if !current.looking && (current.looked.IsZero() || l.clock.Since(current.looked) >= l.rest) {
		current.looking, current.looked = true, l.clock.Now()
		last := current.seen
		if eager || l.clock.Since(current.listed) >= nodesEvery {
			last, current.listed = nil, current.looked
		}
		go l.look(context.WithoutCancel(ctx), cluster, current, last)
	}
	if current.seen == nil {
		return ironicapi.Observation{}, false
	}
	return *current.seen, true
}

// Forget drops what is known of the endpoint of a Metal3Cluster.
func (l *Lookout) Forget(cluster types.NamespacedName) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.sights, cluster)
}

// look asks and remembers the answer. The sight may have been dropped in the meantime; then nobody reads it.
func (l *Lookout) look(
	ctx context.Context, cluster types.NamespacedName, current *sight, last *ironicapi.Observation,
) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	began := l.clock.Now()
	seen := l.ask(ctx, current.endpoint, last)
	lookSeconds.WithLabelValues(string(seen.Answer)).Observe(l.clock.Since(began).Seconds())
	l.mutex.Lock()
	changed := current.seen == nil || !equality.Semantic.DeepEqual(seen, *current.seen)
	current.seen, current.looking = &seen, false
	l.mutex.Unlock()
	if !changed {
		return
	}
	changedCluster := &infrav1.Metal3Cluster{}
	changedCluster.Namespace, changedCluster.Name = cluster.Namespace, cluster.Name
	select {
	case l.news <- event.GenericEvent{Object: changedCluster}:
	default:
	}
}

func same(a, b ironicapi.Endpoint) bool {
	return a.URL == b.URL && a.Username == b.Username && a.Password == b.Password &&
		bytes.Equal(a.Authority, b.Authority)
}
