package wire

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"net/http"
)

// lineBuffer holds most events. Longer ones are joined.
const lineBuffer = 16 << 10

// Watches is a transport that prunes the events of watches. The API server writes each event as one line of JSON.
type Watches struct {
	// Next sends the requests.
	Next http.RoundTripper

	// Tree returns what to remove from the objects of a request. Nil removes nothing.
	Tree func(*http.Request) Tree
}

// RoundTrip implements http.RoundTripper.
func (w Watches) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.Next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || !isWatch(request) || !isJSON(response) {
		return response, err
	}
	if tree := w.Tree(request); tree != nil {
		body := response.Body
		response.Body = &events{Closer: body, from: bufio.NewReaderSize(body, lineBuffer), tree: Tree{"object": tree}}
	}
	return response, nil
}

func isWatch(request *http.Request) bool {
	switch request.URL.Query().Get("watch") {
	case "true", "1":
		return true
	}
	return false
}

func isJSON(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// events reads lines of JSON and prunes each.
type events struct {
	io.Closer
	from *bufio.Reader
	tree Tree

	// line is the memory of a line, rest the part of it that has not been read. err is what follows.
	line, rest []byte
	err        error
}

// Read implements io.Reader.
func (e *events) Read(into []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.readLine()
		e.rest = e.tree.Prune(e.line)
	}
	read := copy(into, e.rest)
	e.rest = e.rest[read:]
	return read, nil
}

// readLine replaces the line, which may be incomplete if it returns an error.
func (e *events) readLine() error {
	e.line = e.line[:0]
	for {
		part, err := e.from.ReadSlice('\n')
		e.line = append(e.line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
