package flow

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CatchUp is the time until the next reconcile of an object whose cached copy is older than the last own write.
const CatchUp = 20 * time.Millisecond

// catchUps is how often a cached copy may be behind. After that the version of the own write is taken for one that will
// never come: an API server that was restored from a backup counts from an older version again.
const catchUps = 250

// Memory holds the versions that a controller has written, so that it does not act on an older copy from its cache: it
// would repeat the last reconcile, write again and emit the event twice. A lost Memory does no other harm. The zero
// value is ready to use.
type Memory struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]write
}

// write is the result of the last own write of an object.
type write struct {
	version string

	// gone is the UID of an object whose last finalizer the write removed. The API server answers such a write with the
	// version from before, which does not identify an old copy.
	gone types.UID

	// behind counts the copies since the write that were older.
	behind int
}

// Behind returns true for an object from the cache that is older than the last own write, or that this write deleted.
// It returns false after many such copies.
func (m *Memory) Behind(object client.Object) bool {
	key := client.ObjectKeyFromObject(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.writes[key]
	if !known {
		return false
	}
	if last.outdates(object) && last.behind < catchUps {
		last.behind++
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

// Forget drops the versions of an object that does not exist any more.
func (m *Memory) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writes, key)
}

// wrote stores the version that a write returned. A nil Memory stores nothing.
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
