package movesecret

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory holds the Secrets of an object that move, so that a change of the object causes no requests for them. A
// restart loses it. The periodic resync, which does not change the generation, bypasses it.
type memory struct {
	mutex   sync.Mutex
	objects map[client.ObjectKey]known
}

type known struct {
	uid        types.UID
	generation int64
	moving     []string
}

// get returns the Secrets of an object that require no read.
func (m *memory) get(object client.Object) []string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	last := m.objects[client.ObjectKeyFromObject(object)]
	if last.uid != object.GetUID() || last.generation == object.GetGeneration() {
		return nil
	}
	return last.moving
}

// set stores the Secrets of an object that move.
func (m *memory) set(object client.Object, moving []string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.objects == nil {
		m.objects = map[client.ObjectKey]known{}
	}
	m.objects[client.ObjectKeyFromObject(object)] = known{object.GetUID(), object.GetGeneration(), moving}
}

// forget drops an object.
func (m *memory) forget(key client.ObjectKey) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.objects, key)
}
