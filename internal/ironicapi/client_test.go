package ironicapi_test

import (
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

const (
	user     = "ironic"
	password = "do-not-tell"
)

// fake is an Ironic with replaceable handlers.
type fake struct {
	versions, drivers, conductors, nodes http.HandlerFunc
}

func healthy() *fake {
	return &fake{
		versions: say(`{"version":{"id":"v1","status":"CURRENT","min_version":"1.1","version":"1.96","links":[]}}`),
		drivers:  say(`{"drivers":[{"name":"redfish","hosts":["c1-b","c1-a"]},{"name":"ipmi","hosts":["c1-a"]}]}`),
		conductors: say(`{"conductors":[{"hostname":"c1-a","created_at":"2026-01-02T03:04:05+00:00"},` +
			`{"hostname":"c1-b"}]}`),
		nodes: say(`{"nodes":[{"uuid":"1","name":"metal3~host-0","provision_state":"active"},` +
			`{"uuid":"2","name":null,"provision_state":"enroll"}]}`),
	}
}

func say(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret detail", code) }
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/" {
		f.versions(w, r)
		return
	}
	name, given, _ := r.BasicAuth()
	if name != user || given != password {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	asked := r.Header.Get("X-Openstack-Ironic-Api-Version")
	switch {
	case strings.HasPrefix(r.URL.Path, "/v1/drivers"):
		f.drivers(w, r)
	case !strings.HasPrefix(r.URL.Path, "/v1/drivers") && asked != ironicapi.MinimumVersion:
		http.Error(w, "another version was requested", http.StatusNotAcceptable)
	case strings.HasPrefix(r.URL.Path, "/v1/nodes"):
		f.nodes(w, r)
	case strings.HasPrefix(r.URL.Path, "/v1/conductors"):
		f.conductors(w, r)
	default:
		http.NotFound(w, r)
	}
}

// identity is a self-signed certificate.
func identity(t *testing.T, change func(*x509.Certificate)) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ironic"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func serve(t *testing.T, handler http.Handler, certificate tls.Certificate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL + "/v1/"
}

func observe(t *testing.T, endpoint ironicapi.Endpoint) ironicapi.Observation {
	t.Helper()
	client, err := ironicapi.New(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	seen := client.Observe(context.Background(), nil)
	if strings.Contains(fmt.Sprint(seen), password) || strings.Contains(fmt.Sprint(seen), "secret") {
		t.Errorf("the observation repeats a secret: %+v", seen)
	}
	return seen
}

func TestObserve(t *testing.T) {
	good := ironicapi.Observation{
		Answer: pivot.Answers, Version: "1.96", Conductors: []string{"c1-a", "c1-b"},
		Nodes: map[string]string{"metal3~host-0": "active"}, IDs: map[string]string{"metal3~host-0": "1"},
		Terms: map[string]string{"c1-a": "2026-01-02T03:04:05Z"},
	}
	hidden := good
	hidden.Terms = nil
	only := func(answer pivot.Answer) ironicapi.Observation { return ironicapi.Observation{Answer: answer} }
	cases := map[string]struct {
		reason      string
		ironic      func(*fake)
		certificate func(*x509.Certificate)
		endpoint    func(*ironicapi.Endpoint)
		want        ironicapi.Observation
	}{
		"Healthy": {reason: "conductors are sorted and unique; nodes without a name are omitted", want: good},
		"JustStarted": {
			reason: "an Ironic that has just started has no conductor",
			ironic: func(f *fake) {
				f.drivers, f.nodes, f.conductors = say(`{"drivers":[]}`), say(`{"nodes":[]}`), say(`{"conductors":[]}`)
			},
			want: ironicapi.Observation{Answer: pivot.Answers, Version: "1.96", Nodes: map[string]string{}, IDs: map[string]string{}},
		},
		"OldestSupported": {
			reason: "BMO requires this version",
			ironic: func(f *fake) {
				f.versions = say(`{"version":{"id":"v1","status":"CURRENT","min_version":"1.1","version":"1.89"}}`)
			},
			want: ironicapi.Observation{
				Answer: pivot.Answers, Version: "1.89", Conductors: good.Conductors, Nodes: good.Nodes, IDs: good.IDs,
				Terms: good.Terms,
			},
		},
		"ConductorsHidden": {
			reason: "a policy may hide the conductors from this user",
			ironic: func(f *fake) { f.conductors = status(http.StatusForbidden) }, want: hidden,
		},
		"NoConductors": {
			reason: "a proxy may not serve the conductors",
			ironic: func(f *fake) { f.conductors = status(http.StatusNotFound) }, want: hidden,
		},
		"ConductorsBroken": {
			reason: "an error of any request counts",
			ironic: func(f *fake) { f.conductors = status(http.StatusInternalServerError) }, want: only(pivot.Broken),
		},
		"TooOld": {
			reason: "BMO does not support it",
			ironic: func(f *fake) {
				f.versions = say(`{"version":{"id":"v1","status":"CURRENT","min_version":"1.1","version":"1.88"}}`)
			},
			want: ironicapi.Observation{Answer: pivot.Unsupported, Version: "1.88"},
		},
		"WrongPassword": {
			reason:   "the Ironic of another cluster, or credentials from before a rotation",
			endpoint: func(e *ironicapi.Endpoint) { e.Password = "old" }, want: only(pivot.Unauthorized),
		},
		"OtherAuthority": {
			reason:   "another Ironic",
			endpoint: func(e *ironicapi.Endpoint) { _, e.Authority = identity(t, nil) }, want: only(pivot.Untrusted),
		},
		"OtherAddress": {
			reason:      "a certificate for another address",
			certificate: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} },
			want:        only(pivot.Untrusted),
		},
		"Expired": {
			reason: "an expired certificate",
			certificate: func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			},
			want: only(pivot.Untrusted),
		},
		"Refused": {
			reason:   "no program listens",
			endpoint: func(e *ironicapi.Endpoint) { e.URL = "https://" + unused(t) + "/v1/" }, want: only(pivot.Unreachable),
		},
		"Slow": {
			reason:   "no response",
			endpoint: func(e *ironicapi.Endpoint) { e.Timeout = 500 * time.Millisecond },
			ironic: func(f *fake) {
				f.drivers = func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					// A return would send a response.
					panic(http.ErrAbortHandler)
				}
			},
			want: only(pivot.Unreachable),
		},
		"ProxyWithoutIronic": {
			reason: "a web server without a running Ironic",
			ironic: func(f *fake) { f.drivers = status(http.StatusServiceUnavailable) }, want: only(pivot.Unreachable),
		},
		"Failing": {
			reason: "an Ironic that fails",
			ironic: func(f *fake) { f.nodes = status(http.StatusInternalServerError) }, want: only(pivot.Broken),
		},
		"Garbage":  {reason: "no JSON", ironic: func(f *fake) { f.drivers = say(`<html>`) }, want: only(pivot.Broken)},
		"Empty":    {reason: "nothing", ironic: func(f *fake) { f.drivers = say(``) }, want: only(pivot.Broken)},
		"NoIronic": {reason: "another API", ironic: func(f *fake) { f.versions = say(`{}`) }, want: only(pivot.Broken)},
		"Redirect": {
			reason: "credentials are not sent to another URL",
			ironic: func(f *fake) { f.drivers = http.RedirectHandler("/v1/nodes", http.StatusFound).ServeHTTP },
			want:   only(pivot.Broken),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ironic := healthy()
			if tc.ironic != nil {
				tc.ironic(ironic)
			}
			certificate, authority := identity(t, tc.certificate)
			endpoint := ironicapi.Endpoint{
				URL: serve(t, ironic, certificate), Username: user, Password: password, Authority: authority,
				Timeout: time.Minute,
			}
			if tc.endpoint != nil {
				tc.endpoint(&endpoint)
			}
			got := observe(t, endpoint)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(ironicapi.Observation{}, "Detail", "Certificate")); diff != "" {
				t.Errorf("%s: -want +got (%s):\n%s", tc.reason, got.Detail, diff)
			}
			if (got.Detail == "") != (got.Answer == pivot.Answers) {
				t.Errorf("%s: the detail of %s is %q", tc.reason, got.Answer, got.Detail)
			}
			if got.Certificate.NotAfter.IsZero() == (got.Answer == pivot.Answers) {
				t.Errorf("%s: the certificate of %s ends at %s", tc.reason, got.Answer, got.Certificate.NotAfter)
			}
		})
	}
}

// TestObserveAgain observes an Ironic twice. While the same conductors answer, Observe does not list the nodes again.
func TestObserveAgain(t *testing.T) {
	ironic := healthy()
	certificate, authority := identity(t, nil)
	client, err := ironicapi.New(ironicapi.Endpoint{
		URL: serve(t, ironic, certificate), Username: user, Password: password, Authority: authority,
	})
	if err != nil {
		t.Fatal(err)
	}
	first := client.Observe(t.Context(), nil)
	ironic.nodes = say(`{"nodes":[]}`)
	if diff := cmp.Diff(first, client.Observe(t.Context(), &first)); diff != "" {
		t.Errorf("the same conductors answer; -want +got:\n%s", diff)
	}
	if seen := client.Observe(t.Context(), nil); len(seen.Nodes) != 0 {
		t.Errorf("a first observation has the nodes %v", seen.Nodes)
	}
	ironic.drivers = say(`{"drivers":[{"name":"redfish","hosts":["c1-c"]}]}`)
	if seen := client.Observe(t.Context(), &first); len(seen.Nodes) != 0 || !slices.Equal(seen.Conductors, []string{"c1-c"}) {
		t.Errorf("got %+v after a change of the conductors", seen)
	}
	bad := ironicapi.Observation{Answer: pivot.Broken}
	if seen := client.Observe(t.Context(), &bad); seen.Answer != pivot.Answers {
		t.Errorf("Observe repeats a failed observation: %+v", seen)
	}
}

// TestTheCertificateIsObservedEachTime replaces the certificate of an Ironic, as its web server does when a Secret
// changes.
func TestTheCertificateIsObservedEachTime(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	until := func(end time.Time) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = end }
	}
	first, authority := identity(t, until(end))
	second, another := identity(t, until(end.Add(time.Hour)))
	served := atomic.Pointer[tls.Certificate]{}
	served.Store(&first)
	server := httptest.NewUnstartedServer(healthy())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*served.Load()}}, nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := ironicapi.New(ironicapi.Endpoint{
		URL: server.URL + "/v1/", Username: user, Password: password, Authority: slices.Concat(authority, another),
	})
	if err != nil {
		t.Fatal(err)
	}
	before := client.Observe(t.Context(), nil)
	served.Store(&second)
	after := client.Observe(t.Context(), &before)
	for seen, want := range map[*ironicapi.Observation]time.Time{&before: end, &after: end.Add(time.Hour)} {
		if got := seen.Certificate.NotAfter.Time; !got.Equal(want) {
			t.Errorf("the certificate ends at %s, want %s: %+v", got, want, seen)
		}
	}
	if diff := cmp.Diff(before.Nodes, after.Nodes); diff != "" {
		t.Errorf("the same conductors answer; -want +got:\n%s", diff)
	}
}

// TestLimits observes servers that would exhaust the memory of the manager.
func TestLimits(t *testing.T) {
	cases := map[string]struct {
		reason string
		ironic func(*fake)
		want   string
	}{
		"Endless": {
			reason: "an answer without an end", ironic: func(f *fake) { f.drivers = endless(http.StatusOK) },
			want: "more than 1048576 bytes",
		},
		"EndlessVersions": {
			reason: "the library omits the error", ironic: func(f *fake) { f.versions = endless(http.StatusOK) },
			want: "not that of Ironic",
		},
		"EndlessError": {
			reason: "the library reads the text of an error",
			ironic: func(f *fake) { f.nodes = endless(http.StatusInternalServerError) }, want: "status 500",
		},
		"Bomb": {
			reason: "a compressed answer is small until it is decompressed",
			ironic: func(f *fake) { f.drivers = bomb }, want: "not that of Ironic",
		},
		"ManyPages": {
			reason: "pages without an end",
			ironic: func(f *fake) { f.nodes = say(`{"nodes":[{"uuid":"1","name":"a~b"}],"next":"https://192.0.2.1/"}`) },
			want:   "more than 50 pages of nodes",
		},
		"ManyNodes": {
			reason: "a server that ignores the limit",
			ironic: func(f *fake) { f.nodes = say(`{"nodes":[{}` + strings.Repeat(`,{}`, 50_000) + `]}`) },
			want:   "more than 50000 nodes",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ironic := healthy()
			tc.ironic(ironic)
			certificate, authority := identity(t, nil)
			got := observe(t, ironicapi.Endpoint{
				URL: serve(t, ironic, certificate), Username: user, Password: password, Authority: authority,
			})
			if got.Answer != pivot.Broken || !strings.Contains(got.Detail, tc.want) {
				t.Errorf("%s: got %s, %q, want %s with %q", tc.reason, got.Answer, got.Detail, pivot.Broken, tc.want)
			}
		})
	}
}

// endless answers until the client closes the connection.
func endless(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, err := io.WriteString(w, `{"drivers":[{}`)
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat(",{}", 1000))
		}
	}
}

// bomb answers with compressed drivers, also if the client does not accept them.
func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(w)
	_, _ = io.WriteString(packed, `{"drivers":[`+strings.Repeat(" ", 1<<19)+`]}`)
	_ = packed.Close()
}

// TestPages lists nodes that do not fit in one answer.
func TestPages(t *testing.T) {
	ironic := healthy()
	ironic.nodes = func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); query.Get("marker") {
		case "":
			if got, want := query.Encode(), "fields=uuid%2Cname%2Cprovision_state&limit=1000"; got != want {
				t.Errorf("got the query %s, want %s", got, want)
			}
			say(`{"nodes":[{"uuid":"1","name":"a~1"},{"uuid":"2&","name":"a~2"}],"next":"https://192.0.2.1/v1/nodes"}`)(w, r)
		case "2&":
			say(`{"nodes":[{"uuid":"3","name":"a~3"}]}`)(w, r)
		default:
			http.NotFound(w, r)
		}
	}
	certificate, authority := identity(t, nil)
	got := observe(t, ironicapi.Endpoint{
		URL: serve(t, ironic, certificate), Username: user, Password: password, Authority: authority,
	})
	want := map[string]string{"a~1": "1", "a~2": "2&", "a~3": "3"}
	if diff := cmp.Diff(want, got.IDs); diff != "" {
		t.Errorf("-want +got (%s):\n%s", got.Detail, diff)
	}
}

// unused is an address without a listener.
func unused(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // a listener that never accepted
	return listener.Addr().String()
}

func TestNewReturnsAnError(t *testing.T) {
	_, authority := identity(t, nil)
	good := ironicapi.Endpoint{URL: "https://192.0.2.1:6385/v1/", Username: user, Password: password, Authority: authority}
	cases := map[string]struct {
		reason string
		change func(*ironicapi.Endpoint)
		want   string
	}{
		"NoAuthority": {"without it any server could answer", func(e *ironicapi.Endpoint) { e.Authority = nil }, "authority"},
		"BadAuthority": {
			"a key is no certificate", func(e *ironicapi.Endpoint) { e.Authority = []byte("garbage") }, "no certificate",
		},
		"NoURL":      {"no address", func(e *ironicapi.Endpoint) { e.URL = "" }, "endpoint"},
		"NoPassword": {"authentication is required", func(e *ironicapi.Endpoint) { e.Password = "" }, "Password"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			endpoint := good
			tc.change(&endpoint)
			_, err := ironicapi.New(endpoint)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%s: got %v, want an error about %q", tc.reason, err, tc.want)
			}
			if strings.Contains(err.Error(), password) {
				t.Error("the error contains the password")
			}
		})
	}
	if _, err := ironicapi.New(good); err != nil {
		t.Errorf("New refuses a complete endpoint: %v", err)
	}
}
