package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/wire"
)

const (
	event  = `{"type":"MODIFIED","object":{"metadata":{"name":"a","managedFields":[{"manager":"b"}]}}}` + "\n"
	pruned = `{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}` + "\n"
)

// answers is a server in memory.
type answers struct {
	status      int
	contentType string
	body        io.Reader
	closed      *bool
	err         error
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.contentType}}, Body: closer{a.body, a.closed},
	}, nil
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error {
	*c.closed = true
	return nil
}

func TestWatches(t *testing.T) {
	long := `{"object":{"metadata":{"managedFields":"` + strings.Repeat("x", 100_000) + `","name":"` +
		strings.Repeat("y", 100_000) + `"}}}` + "\n"
	cases := map[string]struct {
		reason, url, contentType, body, want string
		status                               int
	}{
		"Events": {"each line is an event", "/hosts?watch=true", "application/json", event + event, pruned + pruned, 200},
		"Charset": {
			"the type has a parameter", "/hosts?watch=1", "application/json;charset=utf-8", event, pruned, 200,
		},
		"Long": {
			"longer than the buffer", "/hosts?watch=true", "application/json", long + event,
			`{"object":{"metadata":{"name":"` + strings.Repeat("y", 100_000) + `"}}}` + "\n" + pruned, 200,
		},
		"Interrupted": {"half an event", "/hosts?watch=true", "application/json", event + event[:60], pruned + event[:60], 200},
		"Error":       {"the status of an error", "/hosts?watch=true", "application/json", event, event, 410},
		"List":        {"one text, which may be large", "/hosts", "application/json", event, event, 200},
		"Protobuf":    {"built-in kinds", "/hosts?watch=true", "application/vnd.kubernetes.protobuf", event, event, 200},
		"NoTree":      {"nothing to remove", "/other?watch=true", "application/json", event, event, 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			closed := false
			// One byte at a time: the boundaries of packets are anywhere.
			transport := wire.Watches{
				Next: answers{tc.status, tc.contentType, iotest.OneByteReader(strings.NewReader(tc.body)), &closed, nil},
				Tree: func(request *http.Request) wire.Tree {
					if request.URL.Path != "/hosts" {
						return nil
					}
					return wire.ManagedFields()
				},
			}
			response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(iotest.OneByteReader(response.Body))
			if err != nil || string(got) != tc.want {
				t.Errorf("%s: got %.300s, %v, want %.300s", tc.reason, got, err, tc.want)
			}
			if err := response.Body.Close(); err != nil || !closed {
				t.Errorf("closed: %t, %v", closed, err)
			}
		})
	}
}

// TestEventsArriveAtOnce reads an event while the watch goes on.
func TestEventsArriveAtOnce(t *testing.T) {
	from, to := io.Pipe()
	closed := false
	transport := wire.Watches{
		Next: answers{200, "application/json", from, &closed, nil},
		Tree: func(*http.Request) wire.Tree { return wire.ManagedFields() },
	}
	response, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?watch=true", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for range 2 {
		go func() { _, _ = io.WriteString(to, event) }()
		got := make([]byte, len(pruned))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != pruned {
			t.Fatalf("got %s, %v", got, err)
		}
	}
	broken := errors.New("connection reset")
	_ = to.CloseWithError(broken)
	if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the connection", err)
	}
}

func TestWatchThatFails(t *testing.T) {
	refused := errors.New("refused")
	transport := wire.Watches{Next: answers{err: refused}}
	//nolint:bodyclose // There is no response.
	if _, err := transport.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?watch=true", nil)); !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of the connection", err)
	}
}

func TestRequests(t *testing.T) {
	var got []byte
	handler := wire.Tree{"object": wire.ManagedFields()}.Requests(http.HandlerFunc(
		func(_ http.ResponseWriter, request *http.Request) { got, _ = io.ReadAll(request.Body) },
	))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(event)))
	if string(got) != pruned {
		t.Errorf("got %s, want %s", got, pruned)
	}
	got = nil
	recorder := httptest.NewRecorder()
	broken := io.MultiReader(bytes.NewReader([]byte("{")), iotest.ErrReader(errors.New("connection reset")))
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", broken))
	if recorder.Code != http.StatusBadRequest || got != nil || !strings.Contains(recorder.Body.String(), "connection reset") {
		t.Errorf("got status %d, %s", recorder.Code, recorder.Body)
	}
}
