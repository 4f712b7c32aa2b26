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

// TestUntilReady probes API servers that answer with these codes, and repeat the last one.
func TestUntilReady(t *testing.T) {
	cases := map[string]struct {
		codes   []int
		probes  int
		problem string
	}{
		"ready at once":             {codes: []int{http.StatusOK}, probes: 1},
		"starting, then ready":      {codes: []int{http.StatusInternalServerError, http.StatusOK}, probes: 2},
		"a proxy without a backend": {codes: []int{http.StatusBadGateway, http.StatusBadGateway, http.StatusOK}, probes: 3},
		"forbidden":                 {codes: []int{http.StatusForbidden}, probes: 1},
		"not found":                 {codes: []int{http.StatusNotFound}, probes: 1},
		"unauthorized":              {codes: []int{http.StatusUnauthorized}, probes: 1, problem: "credentials"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			probes := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" {
					t.Errorf("got a request for %s", r.URL.Path)
				}
				w.WriteHeader(test.codes[min(probes, len(test.codes)-1)])
				probes++
			}))
			defer server.Close()
			err := untilReady(t.Context(), &rest.Config{Host: server.URL}, time.Millisecond)
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, want %q", err, test.problem)
			}
			if probes != test.probes {
				t.Errorf("got %d probes, want %d", probes, test.probes)
			}
		})
	}
}

// TestUntilReadyUnavailable has a server that closes each connection. untilReady must probe again.
func TestUntilReadyUnavailable(t *testing.T) {
	probed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		probed <- struct{}{}
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
		case <-probed:
		}
	}
	cancel()
	for {
		select {
		case <-probed:
		case err := <-done:
			if err == nil {
				t.Error("got no error for an API server that never answers")
			}
			return
		}
	}
}
