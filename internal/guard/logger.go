package guard

import (
	"log/slog"
	"sync"
)

// logger also logs lasting errors once. It is safe for concurrent use.
type logger struct {
	*slog.Logger

	mutex sync.Mutex

	// said is the last error of each kind.
	said map[string]string
}

func newLogger(log *slog.Logger) *logger {
	return &logger{Logger: log, said: map[string]string{}}
}

// once logs an error of a kind when it differs from the last one, and its end when it is nil. It returns true at the
// end of an error.
func (l *logger) once(kind, message string, err error) (ended bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	before := l.said[kind]
	switch {
	case err == nil && before != "":
		delete(l.said, kind)
		l.Info("No longer: " + message)
		return true
	case err != nil && err.Error() != before:
		l.said[kind] = err.Error()
		l.Error(message, "error", err)
	}
	return false
}
