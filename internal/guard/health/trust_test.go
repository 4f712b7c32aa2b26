package health_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
)

// TestTrust changes the file with the authority and the certificate of the web server in any order.
func TestTrust(t *testing.T) {
	t.Parallel()
	authorities, pairs := map[string][]byte{"garbage": []byte("x")}, map[string]tls.Certificate{}
	for _, name := range []string{"one", "two", "three"} {
		authorities[name], pairs[name] = issue(t, nil)
	}
	authorities["one and two"] = append(authorities["one"], authorities["two"]...)
	type step struct{ file, certificate, want, says string }
	const before = "previous authority"
	for name, test := range map[string]struct {
		reason string
		steps  []step
	}{
		"another one":        {"clients would refuse it", []step{{"one", "two", "CertificateWrong", ""}}},
		"file first":         {"the web server follows", []step{{"one", "one", "", ""}, {"two", "one", "", before}, {"two", "two", "", ""}}},
		"certificate first":  {"the file follows", []step{{"one", "one", "", ""}, {"one", "two", "CertificateWrong", ""}, {"two", "two", "", ""}}},
		"there and back":     {"an edit is reverted", []step{{"one", "one", "", ""}, {"two", "one", "", before}, {"one", "one", "", ""}}},
		"twice in a row":     {"the web server is late", []step{{"one", "one", "", ""}, {"two", "one", "", before}, {"three", "one", "", before}, {"three", "two", "", before}}},
		"damaged, then well": {"an interrupted write", []step{{"one", "one", "", ""}, {"garbage", "one", "", "PEM"}, {"two", "one", "", before}}},
		"deleted":            {"the folder is missing for a moment", []step{{"one", "one", "", ""}, {"", "one", "", "no such file"}}},
		"two in one file":    {"a user rotates manually", []step{{"one and two", "one", "", ""}, {"one and two", "two", "", ""}}},
		"old authority is over": {
			"the web server has shown the new certificate, so the old authority does not count",
			[]step{{"one", "one", "", ""}, {"two", "one", "", before}, {"two", "two", "", ""}, {"two", "one", "CertificateWrong", ""}},
		},
		"reverted, over": {
			"the file has authority one again, and the web server its certificate",
			[]step{{"one", "one", "", ""}, {"two", "one", "", before}, {"one", "one", "", ""}, {"one", "two", "CertificateWrong", ""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, authorities[test.steps[0].file])
			for number, step := range test.steps {
				pair := pairs[step.certificate]
				w.pair.Store(&pair)
				w.write(t, authorities[step.file])
				if got := health.ReasonOf(w.prober.Check(t.Context())); got != step.want {
					t.Errorf("%s: step %d: got %q, want %q", test.reason, number+1, got, step.want)
				}
				said := ""
				if err := w.prober.Unsettled(); err != nil {
					said = err.Error()
				}
				if step.says == "" && said != "" || !strings.Contains(said, step.says) {
					t.Errorf("%s: step %d: got error %q, want %q", test.reason, number+1, said, step.says)
				}
			}
		})
	}
}

// witness is a prober of a web server whose certificate changes.
type witness struct {
	file   string
	prober health.Prober
	pair   atomic.Pointer[tls.Certificate]
}

// write replaces the file. Empty content removes it.
func (w *witness) write(t *testing.T, content []byte) {
	t.Helper()
	err := os.WriteFile(w.file, content, 0o600)
	if content == nil {
		err = os.Remove(w.file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newWitness(t *testing.T, authority []byte) *witness {
	t.Helper()
	w := &witness{file: filepath.Join(t.TempDir(), "ca.crt")}
	w.write(t, authority)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(filepath.Dir(w.file), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewUnstartedServer(ironic{}.api(nil))
	_ = api.Listener.Close()
	api.Listener = listener
	api.Start()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	web.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*w.pair.Load()}}, nil
	}}
	web.StartTLS()
	t.Cleanup(func() {
		api.Close()
		web.Close()
	})
	w.prober.Target = health.Target{
		Socket: listener.Addr().String(), APIPort: portOf(t, web.Listener),
		Address: netip.MustParseAddr(address), Conductor: conductor, Authority: w.file,
	}
	return w
}
