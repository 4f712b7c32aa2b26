package movesecret

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory remembers which Secrets of an object are known to move, so that a change of the object costs no request for
// those. It is a hint: a restart loses it, and the periodic resync, which shows an object in the generation that is
// remembered, looks at all of them again.
type memory struct {
	mutex   sync.Mutex
	objects map[client.ObjectKey]known
}

type known struct {
	uid        types.UID
	generation int64
	moving     map[string]bool
}

// recall returns the Secrets that need not be looked at.
func (m *memory) recall(object client.Object) map[string]bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	last := m.objects[client.ObjectKeyFromObject(object)]
	if last.uid != object.GetUID() || last.generation == object.GetGeneration() {
		return nil
	}
	return last.moving
}

// keep replaces what is remembered about an object.
func (m *memory) keep(object client.Object, moving map[string]bool) {
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
