package env

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWaitForStorage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		// answers are the answers of the API server. The last one repeats.
		answers []string
		want    string
		tries   int
	}{
		"Stored":   {"", []string{"done"}, "done", 1},
		"Late":     {"The storage exists after the second try.", []string{storageError, storageError, "done"}, "done", 3},
		"Never":    {"The caller gets the error.", []string{storageError}, storageError, storageTries},
		"OtherErr": {"The API server has another problem.", []string{"etcdserver: request timed out"}, "etcdserver: request timed out", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bodies []string
			server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
				content, _ := io.ReadAll(request.Body)
				answer := test.answers[min(len(bodies), len(test.answers)-1)]
				bodies = append(bodies, string(content))
				if answer != "done" {
					writer.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = io.WriteString(writer, answer)
			}))
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("object"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := waitForStorage(http.DefaultTransport).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if string(got) != test.want || len(bodies) != test.tries {
				t.Errorf("%s got %q after %d tries, want %q after %d", test.reason, got, len(bodies), test.want, test.tries)
			}
			for _, body := range bodies {
				if body != "object" {
					t.Errorf("a try sent %q", body)
				}
			}
		})
	}
}
