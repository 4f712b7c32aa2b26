package ironic

import (
	"io"
	"sync"
)

// tailSize is the length of Ironic's log in an error about its start.
const tailSize = 8 << 10

// tail forwards written data and keeps its end.
type tail struct {
	to io.Writer

	mutex   sync.Mutex
	content []byte
}

func (t *tail) Write(data []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.content = append(t.content, data...)
	if excess := len(t.content) - tailSize; excess > 0 {
		t.content = append([]byte(nil), t.content[excess:]...)
	}
	if t.to == nil {
		return len(data), nil
	}
	return t.to.Write(data)
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.content)
}
