package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"sync"
	"time"
)

// logLimit is the maximum size of the log of an agent in bytes. Older lines are dropped.
const logLimit = 1 << 20

type logbook struct {
	mutex   sync.Mutex
	content []byte
}

// Write implements io.Writer.
func (l *logbook) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.content = append(l.content, line...)
	if beyond := len(l.content) - logLimit; beyond > 0 {
		l.content = slices.Delete(l.content, 0, beyond)
	}
	return len(line), nil
}

// pack returns the log in a compressed archive.
func (l *logbook) pack(now time.Time) ([]byte, error) {
	l.mutex.Lock()
	content := slices.Clone(l.content)
	l.mutex.Unlock()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	header := &tar.Header{Name: "agent.log", Mode: 0o644, Size: int64(len(content)), ModTime: now}
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write(content); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
