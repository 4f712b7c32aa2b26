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

// Memory knows which versions a controller has written, so that it does not act on an older copy from its cache: it
// would repeat what it has done, write once more and announce it twice. Losing the memory does no harm beyond that. The
// zero value is ready to use.
type Memory struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]string
}

// Behind says whether an object from the cache is older than the own last write of it.
func (m *Memory) Behind(object client.Object) bool {
	key := client.ObjectKeyFromObject(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	written, known := m.versions[key]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
	if err == nil && order < 0 {
		return true
	}
	delete(m.versions, key)
	return false
}

// Forget drops what is known of an object that is gone.
func (m *Memory) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, key)
}

// wrote remembers the version that a write gave. A nil memory remembers nothing.
func (m *Memory) wrote(object client.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versions == nil {
		m.versions = map[types.NamespacedName]string{}
	}
	m.versions[client.ObjectKeyFromObject(object)] = object.GetResourceVersion()
}
