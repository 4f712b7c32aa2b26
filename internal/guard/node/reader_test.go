package node_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/node"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

const annotation = "example.org/armed"

// object returns the answer of the API server for a Node.
func object(annotations string) string {
	return `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "node-1", "annotations": ` + annotations + `}}`
}

func TestRead(t *testing.T) {
	t.Parallel()
	notFound := `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}`
	for name, test := range map[string]struct {
		reason string
		status int
		body   string
		kind   string
		want   policy.Answer
		failed bool
	}{
		"yes":            {reason: "armed", body: object(`{"example.org/armed": "true"}`), want: policy.Yes},
		"no":             {reason: "withdrawn", body: object(`{"example.org/armed": "false"}`), want: policy.No},
		"neither":        {reason: "neither true nor false", body: object(`{"example.org/armed": "yes"}`)},
		"nothing":        {reason: "no annotation is set", body: object(`{"other": "true"}`)},
		"no annotations": {reason: "no annotation is set", body: object(`null`)},
		"no Node":        {reason: "the node has not joined yet", status: 404, body: notFound},
		"no API server":  {reason: "a proxy may answer 404 too", status: 404, body: "not here", failed: true},
		"a page":         {reason: "a proxy answers with a page", status: 404, body: "<html>", kind: "text/html", failed: true},
		"a good page":    {reason: "a proxy answers with a page", body: "<html>", kind: "text/html", failed: true},
		"forbidden":      {reason: "invalid credentials are no answer about the node", status: 403, body: strings.NewReplacer("NotFound", "Forbidden", "404", "403").Replace(notFound), failed: true},
		"down":           {reason: "an outage", status: 503, failed: true},
		"garbage":        {reason: "no answer", body: "<html>", failed: true},
		"another Node":   {reason: "an answer about another node", body: strings.Replace(object(`{"example.org/armed": "true"}`), "node-1", "node-2", 1), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := newReader(t, func(writer http.ResponseWriter, request *http.Request) {
				if request.URL.Path != "/api/v1/nodes/node-1" || len(request.TLS.PeerCertificates) == 0 ||
					!strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata") {
					writer.WriteHeader(http.StatusTeapot)
					return
				}
				writer.Header().Set("Content-Type", cmp.Or(test.kind, "application/json"))
				writer.WriteHeader(max(test.status, http.StatusOK))
				_, _ = fmt.Fprint(writer, test.body)
			})
			got, err := reader.Read(context.Background())
			if got.Armed != test.want || (err != nil) != test.failed {
				t.Errorf("%s: got %q, %v", test.reason, got, err)
			}
		})
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	reader := node.Reader{
		Node: "node-1", Annotation: annotation,
		Caches: []string{filepath.Join(folder, "first", "cache"), filepath.Join(folder, "second", "cache")},
	}
	if got := reader.Cached(); got != (node.Said{}) {
		t.Errorf("the cache is empty, but got %q", got)
	}
	yes, no := node.Said{Armed: policy.Yes, Peers: "192.0.2.1"}, node.Said{Armed: policy.No}
	if err := reader.Store(yes); err != nil {
		t.Fatal(err)
	}
	for _, lost := range reader.Caches {
		if got := reader.Cached(); got != yes {
			t.Errorf("before %s was lost, the cache has %q", lost, got)
		}
		if err := os.Remove(lost); err != nil {
			t.Fatal(err)
		}
	}
	if err := reader.Store(no); err != nil {
		t.Fatal(err)
	}
	other := reader
	other.Node = "node-2"
	if got := other.Cached(); got != (node.Said{}) {
		t.Errorf("the answer about another node counts: %q", got)
	}
	other = reader
	other.Annotation = "example.org/other"
	if got := other.Cached(); got != (node.Said{}) {
		t.Errorf("the answer about another annotation counts: %q", got)
	}
	if err := os.WriteFile(reader.Caches[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := reader.Cached(); got != no {
		t.Errorf("with one damaged cache got %q", got)
	}
}

func TestInvalidKubeconfig(t *testing.T) {
	t.Parallel()
	good := newReader(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, object(`{}`))
	})
	content, err := os.ReadFile(good.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(string) string{
		"YAML": func(string) string { return "\t{" },
		"current context": func(text string) string {
			return strings.Replace(text, "current-context: here", "current-context: there", 1)
		},
		"certificate authority": func(text string) string { return strings.Replace(text, "certificate-authority-data:", "x:", 1) },
		"client certificate":    func(text string) string { return strings.Replace(text, "client-certificate:", "x:", 1) },
		"credential": func(text string) string {
			return strings.NewReplacer("certificate-authority-data:", "x:", "client-certificate:", "y:", "client-key:", "z:").Replace(text)
		},
		"PEM": func(text string) string {
			return strings.Replace(text, "certificate-authority-data: ", "certificate-authority-data: eHh4eA==\n    x: ", 1)
		},
	} {
		reader := good
		reader.Kubeconfig = filepath.Join(filepath.Dir(good.Kubeconfig), strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(reader.Kubeconfig, []byte(damage(string(content))), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := reader.Read(context.Background())
		if err == nil || !strings.Contains(err.Error(), reader.Kubeconfig) {
			t.Errorf("a kubeconfig with a wrong %s: %v", name, err)
		}
		if name == "credential" && !strings.Contains(err.Error(), "no certificate authority or no client certificate") {
			t.Errorf("a kubeconfig without credentials: %v", err)
		}
	}
	reader := good
	reader.Kubeconfig += ".absent"
	if _, err := reader.Read(context.Background()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestReplacedCredentials replaces files of which the guard still has the old ones, as a mount of a file does.
func TestReplacedCredentials(t *testing.T) {
	t.Parallel()
	expired := newReader(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	const replaced = "were replaced after the start of the guard"
	if _, err := expired.Read(context.Background()); err == nil || strings.Contains(err.Error(), replaced) {
		t.Errorf("no file was replaced: %v", err)
	}
	content, err := os.ReadFile(expired.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(expired.Kubeconfig)
	old := deleted(t, filepath.Join(folder, "kubelet.pem"))
	certificate := expired
	certificate.Kubeconfig += ".new"
	absolute := strings.ReplaceAll(string(content), "kubelet.pem", old)
	if err := os.WriteFile(certificate.Kubeconfig, []byte(absolute), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "files ["+old+"] "+replaced) {
		t.Errorf("the certificate was replaced: %v", err)
	}
	kubeconfig := expired
	kubeconfig.Kubeconfig = deleted(t, expired.Kubeconfig)
	if _, err := kubeconfig.Read(context.Background()); err == nil || !strings.Contains(err.Error(), "files ["+kubeconfig.Kubeconfig+"] "+replaced) {
		t.Errorf("the kubeconfig was replaced: %v", err)
	}
}

// deleted deletes a file, and returns a path of the open file.
func deleted(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd())
}

// newReader starts an API server and writes a kubeconfig of a kubelet for it.
func newReader(t *testing.T, handler http.HandlerFunc) node.Reader {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	write("kubelet.pem", clientPair(t))
	return node.Reader{
		Kubeconfig: write("kubelet.conf", "kind: Config\ncurrent-context: here\n"+
			"clusters:\n- name: c\n  cluster:\n    server: "+server.URL+"\n    certificate-authority-data: "+
			base64.StdEncoding.EncodeToString(authority)+"\n"+
			"contexts:\n- name: here\n  context: {cluster: c, user: u}\n"+
			"users:\n- name: u\n  user:\n    client-certificate: kubelet.pem\n    client-key: kubelet.pem\n"),
		Node: "node-1", Annotation: annotation, Yes: "true",
	}
}
