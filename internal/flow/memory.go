package flow

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CatchUp is the time until the next reconcile of an object with a cached copy that is older than the last own write.
const CatchUp = 20 * time.Millisecond

// catchUps is the number of outdated copies after which Behind returns false. An API server that was restored from a
// backup never returns the version of the last write.
const catchUps = 250

// Memory holds the versions that a controller wrote. Without them, a controller may reconcile an older cached copy,
// repeat the last write and emit its event twice. The zero value is ready to use.
type Memory struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]write
}

// write is the result of the last own write of an object.
type write struct {
	version string

	// gone is the UID of an object without its last finalizer. The API server answers the removal with the previous
	// version, so the version does not identify an outdated copy.
	gone types.UID

	// behind counts the outdated copies since the write.
	behind int
}

// Behind returns true for a cached object that is older than the last own write, or that this write deleted. It returns
// false after many such copies.
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

// Forget drops the version of a deleted object.
func (m *Memory) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writes, key)
}

// wrote stores the version that a write returned.
func (m *Memory) wrote(object client.Object) {
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
