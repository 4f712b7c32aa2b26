package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestUntilReady asks API servers that answer one after another with these codes. The last one is repeated.
func TestUntilReady(t *testing.T) {
	cases := map[string]struct {
		codes   []int
		asked   int
		problem string
	}{
		"ready at once":               {codes: []int{http.StatusOK}, asked: 1},
		"starting, then ready":        {codes: []int{http.StatusInternalServerError, http.StatusOK}, asked: 2},
		"nobody behind the proxy":     {codes: []int{http.StatusBadGateway, http.StatusBadGateway, http.StatusOK}, asked: 3},
		"there, but keeps its secret": {codes: []int{http.StatusForbidden}, asked: 1},
		"there, but older":            {codes: []int{http.StatusNotFound}, asked: 1},
		"does not know us":            {codes: []int{http.StatusUnauthorized}, asked: 1, problem: "credentials"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.WriteHeader(test.codes[min(asked, len(test.codes)-1)])
				asked++
			}))
			defer server.Close()
			err := untilReady(t.Context(), &rest.Config{Host: server.URL}, time.Millisecond)
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, want %q", err, test.problem)
			}
			if asked != test.asked {
				t.Errorf("asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

// TestUntilReadyAway has a server that ends each connection, as in an outage. untilReady has waited when it asks again.
func TestUntilReadyAway(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- untilReady(ctx, &rest.Config{Host: server.URL}, time.Millisecond) }()
	for range 5 {
		select {
		case err := <-done:
			t.Fatalf("did not wait: %v", err)
		case <-asked:
		}
	}
	cancel()
	for {
		select {
		case <-asked:
		case err := <-done:
			if err == nil {
				t.Error("says that an API server is ready that never answers")
			}
			return
		}
	}
}
