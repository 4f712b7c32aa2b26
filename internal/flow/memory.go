package flow

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CatchUp is how long to wait for a cache that does not show the own last write yet.
const CatchUp = 20 * time.Millisecond

// maxChecks is how often an object may be found behind the same write, about five seconds. A cache that lags for longer
// will not catch up: a restore of etcd brings back old objects with old versions.
const maxChecks = 250

// Memory knows which versions a controller has written, so that it does not act on an older copy from its cache: it
// would repeat what it has done, write once more and announce it twice. Losing the memory does no harm beyond that. The
// zero value is ready to use.
type Memory struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]write
}

// write is what the last own write of an object gave.
type write struct {
	version string

	// gone is the UID of an object that the write took the last finalizer of. The API server answers such a write with
	// the version from before, which cannot tell an old copy.
	gone types.UID

	// checks is how often an object was found behind the write.
	checks int
}

// Behind says whether an object from the cache is older than the own last write of it, or gone since that write. It
// forgets the write when the cache does not catch up.
func (m *Memory) Behind(object client.Object) bool {
	key := client.ObjectKeyFromObject(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.writes[key]
	if !known {
		return false
	}
	if last.checks++; last.outdates(object) && last.checks <= maxChecks {
		m.writes[key] = last
		return true
	}
	delete(m.writes, key)
	return false
}

func (w write) outdates(object client.Object) bool {
	if w.gone != "" {
		return w.gone == object.GetUID()
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), w.version)
	return err == nil && order < 0
}

// Forget drops what is known of an object that is gone.
func (m *Memory) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writes, key)
}

// wrote remembers the version that a write gave. A nil memory remembers nothing.
func (m *Memory) wrote(object client.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writes == nil {
		m.writes = map[types.NamespacedName]write{}
	}
	last := write{version: object.GetResourceVersion()}
	if !object.GetDeletionTimestamp().IsZero() && len(object.GetFinalizers()) == 0 {
		last.gone = object.GetUID()
	}
	m.writes[client.ObjectKeyFromObject(object)] = last
}
