package node_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestRenewedCertificate replaces the certificate in place, as the kubelet does. The next request uses it.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	var last string
	reader := newReader(t, func(writer http.ResponseWriter, request *http.Request) {
		last = string(request.TLS.PeerCertificates[0].Raw)
		writer.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(writer, object(`{}`))
	})
	connect := func() string {
		t.Helper()
		if _, err := reader.Read(context.Background()); err != nil {
			t.Fatal(err)
		}
		return last
	}
	first := connect()
	if connect() != first {
		t.Error("the request uses another certificate")
	}
	renewed := filepath.Join(filepath.Dir(reader.Kubeconfig), "kubelet.pem")
	if err := os.WriteFile(renewed+".new", []byte(clientPair(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(renewed+".new", renewed); err != nil {
		t.Fatal(err)
	}
	if connect() == first {
		t.Error("the request uses the old certificate")
	}
}
