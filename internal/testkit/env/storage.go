package env

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// storageError is in the answer of an API server that could not create the storage of a kind with a CRD. The API server
// creates it for the first request of the kind, and then connects to etcd. A busy machine may be too slow for that. The
// next request tries it again.
const storageError = "error resolving resource"

// storageTries is how often a request is sent that meets storageError. Each try takes up to 20 seconds.
const storageTries = 5

// storageWaiter sends a request again if the API server could not create the storage of its kind.
type storageWaiter struct{ next http.RoundTripper }

func waitForStorage(next http.RoundTripper) http.RoundTripper { return storageWaiter{next} }

// RoundTrip implements http.RoundTripper.
func (w storageWaiter) RoundTrip(request *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		response, err := w.next.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusInternalServerError {
			return response, err
		}
		content, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(bytes.NewReader(content))
		if try == storageTries || !bytes.Contains(content, []byte(storageError)) {
			return response, nil
		}
		request = request.Clone(request.Context())
		if request.GetBody != nil {
			if request.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}
