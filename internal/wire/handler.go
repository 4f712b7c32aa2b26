package wire

import (
	"bytes"
	"io"
	"net/http"
)

// Requests returns a handler that prunes the bodies of requests.
func (t Tree) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(writer, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(t.Prune(body)))
		next.ServeHTTP(writer, request)
	})
}
