package stage

import (
	"errors"
	"sync/atomic"
)

// Mortal is a manager that dies after every write: the response is lost, and the API server stores no further write.
// Use StartMortal.
type Mortal struct {
	// Deaths is the number of its deaths.
	Deaths int

	start   func() *Running
	running *Running
	died    atomic.Bool
	dead    chan struct{}
}

// StartMortal starts a manager with the given writes.
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

// Revive starts the manager again if it has died. A story calls it before each read.
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
