package stage

import (
	"errors"
	"sync/atomic"
)

// Mortal is a manager that dies after every write: the answer to the write is lost, and no other write is stored any
// more. Use StartMortal.
type Mortal struct {
	// Deaths counts how often it has died.
	Deaths int

	start   func() *Running
	running *Running
	died    atomic.Bool
	dead    chan struct{}
}

// StartMortal starts a manager that writes through writes.
func StartMortal(writes *Writes, start func() *Running) *Mortal {
	m := &Mortal{start: start, dead: make(chan struct{}, 1)}
	writes.Judge(func(Write) Verdict {
		if m.died.Swap(true) {
			return Verdict{Err: errors.New("the process is dead")}
		}
		m.dead <- struct{}{}
		return Verdict{Err: errors.New("the process died before the answer came"), Lost: true}
	})
	m.running = start()
	return m
}

// Revive starts the manager again if it has died. A story calls it whenever it looks at something.
func (m *Mortal) Revive() {
	select {
	case <-m.dead:
		m.running.Stop()
		m.died.Store(false)
		m.Deaths++
		m.running = m.start()
	default:
	}
}
