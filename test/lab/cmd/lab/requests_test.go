package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// serve handles requests as a lab does.
func serve(t *testing.T, prepare prepareFunc) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), targetSocket)
	stop, err := serveRequests(t.Context(), path, prepare)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return path
}

func TestRequestTarget(t *testing.T) {
	cases := map[string]struct {
		reason, cluster, wantOutput, wantErr string
	}{
		"Done": {"the client gets the commands of the next steps", "one", "first line\nsecond line\n", ""},
		"Failed": {
			"each line of the error is returned as the error", "two", "", "cluster two\ndoes not exist",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := serve(t, func(_ context.Context, cluster string, progress lab.Progress) (string, error) {
				progress("waiting for %s\nand more", cluster)
				if cluster == "one" {
					return "first line\nsecond line\n", nil
				}
				return "", errors.New("cluster " + cluster + "\ndoes not exist")
			})
			var output strings.Builder
			err := requestTarget(t.Context(), path, "mine", tc.cluster, &output)
			if output.String() != tc.wantOutput {
				t.Errorf("%s: got output %q, want %q", tc.reason, output.String(), tc.wantOutput)
			}
			if (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.wantErr)
			}
		})
	}
}

func TestRequestTargetWithoutALab(t *testing.T) {
	err := requestTarget(t.Context(), filepath.Join(t.TempDir(), targetSocket), "mine", "one", &strings.Builder{})
	if err == nil || err.Error() != "no process runs lab mine: start it with lab up --name mine" {
		t.Errorf("got error %v", err)
	}
}

// TestARequestThatIsWithdrawnEnds disconnects a client, as Ctrl-C does. The lab then handles the next request.
func TestARequestThatIsWithdrawnEnds(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	path := serve(t, func(ctx context.Context, cluster string, _ lab.Progress) (string, error) {
		if cluster == "next" {
			return "done", nil
		}
		close(began)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	requestCtx, withdraw := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { answered <- requestTarget(requestCtx, path, "mine", "one", &strings.Builder{}) }()
	<-began
	withdraw()
	<-ended
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
	if err := requestTarget(t.Context(), path, "mine", "next", &strings.Builder{}); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// TestALabThatStopsEndsRequests stops a lab while a client waits for a response.
func TestALabThatStopsEndsRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), targetSocket)
	began := make(chan struct{})
	stop, err := serveRequests(t.Context(), path, func(ctx context.Context, _ string, _ lab.Progress) (string, error) {
		close(began)
		<-ctx.Done()
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- requestTarget(t.Context(), path, "mine", "one", &strings.Builder{}) }()
	<-began
	stop()
	if err := <-answered; err == nil || err.Error() != "lab mine stopped before the target was ready" {
		t.Errorf("got error %v", err)
	}
}
