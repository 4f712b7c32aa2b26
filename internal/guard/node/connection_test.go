package node_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// visitor is what the API server sees of who asks.
type visitor struct {
	connection, certificate string
}

// TestConnection: one connection serves for about a minute, but never longer than what it was made with is in the files.
func TestConnection(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var last visitor
	reader := newReader(t, func(writer http.ResponseWriter, request *http.Request) {
		last = visitor{request.RemoteAddr, string(request.TLS.PeerCertificates[0].Raw)}
		writer.WriteHeader(status)
		_, _ = fmt.Fprint(writer, object(`{}`))
	})
	defer reader.Close()
	ask := func() visitor {
		t.Helper()
		if _, err := reader.Read(context.Background()); (err != nil) != (status != http.StatusOK) {
			t.Fatalf("with status %d: %v", status, err)
		}
		return last
	}
	first := ask()
	if ask() != first {
		t.Error("the second question makes a connection of its own")
	}
	renewed := filepath.Join(filepath.Dir(reader.Kubeconfig), "kubelet.pem")
	if err := os.WriteFile(renewed+".new", []byte(clientPair(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(renewed+".new", renewed); err != nil {
		t.Fatal(err)
	}
	second := ask()
	if second.certificate == first.certificate || second.connection == first.connection {
		t.Error("the kubelet renewed its certificate, and the old one goes on to be used")
	}
	if ask() != second {
		t.Error("the question after the renewal makes a connection of its own")
	}
	status = http.StatusServiceUnavailable
	ask()
	status = http.StatusOK
	third := ask()
	if third.connection == second.connection {
		t.Error("an API server that cannot answer is asked again on the same connection")
	}
	seen := map[string]bool{}
	for range 20 {
		seen[ask().connection] = true
	}
	if len(seen) < 2 || len(seen) > 3 {
		t.Errorf("20 questions take %d connections", len(seen))
	}
}
