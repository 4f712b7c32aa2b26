package lab

import (
	"bytes"
	"sync"
)

// lines passes what programs write on as progress, line by line.
type lines struct {
	progress Progress

	mutex sync.Mutex
	// rest is the beginning of a line whose end was not written yet.
	rest []byte
}

func (l *lines) Write(content []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.rest = append(l.rest, content...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(content), nil
		}
		l.progress("%s", line)
		l.rest = rest
	}
}
