package health_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
)

const (
	address   = "192.0.2.2"
	conductor = "3f9c1a7e-node-1"
	wellDone  = `{"drivers": [{"name": "ipmi", "hosts": []}, {"name": "redfish", "hosts": ["` + conductor + `"], "extra": 1}]}`
)

// ironic is a node with an Ironic that can fail.
type ironic struct {
	body        string
	status      int
	slow        bool
	delay       time.Duration
	cut         bool
	certificate func(*x509.Certificate)
	foreignCA   bool
	images      map[string]int
	emptyImages bool
	skipImages  bool
	gone        bool

	// webStatus is the answer of the web server instead of Ironic. webGone means that no web server runs.
	webStatus  int
	webGone    bool
	imagesGone bool

	// imageDelay is the time that the web server takes for an image.
	imageDelay time.Duration

	// webWorkers is the maximum number of connections of the web server. Zero means no limit.
	webWorkers int

	// serve returns the status of an image, instead of images.
	serve func(image string) int
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		in     ironic
		want   string
	}{
		"well":           {reason: "all answers are good", in: ironic{}},
		"without images": {reason: "the check of images is optional", in: ironic{skipImages: true, images: map[string]int{"kernel": 404}}},
		"no listener":    {reason: "no process listens", in: ironic{gone: true}, want: "Refused"},
		"slow":           {reason: "hosts would wait too", in: ironic{slow: true}, want: "Slow"},
		"late":           {reason: "the node is busy", in: ironic{delay: time.Second}},
		"broken":         {reason: "Ironic without its database", in: ironic{status: 503}, want: "APIStatus"},
		"no web server":  {reason: "hosts could not reach Ironic", in: ironic{webGone: true}, want: "Refused"},
		"web server without Ironic": {
			reason: "Ironic has another socket", in: ironic{webStatus: http.StatusServiceUnavailable}, want: "APIStatus"},
		"web server that requires a password": {
			reason: "hosts have no password", in: ironic{webStatus: http.StatusUnauthorized}, want: "APIStatus"},
		"redirect":    {reason: "the server of this node must answer", in: ironic{status: 302}, want: "APIStatus"},
		"no content":  {reason: "only 200 counts", in: ironic{status: 204}, want: "APIStatus"},
		"empty body":  {reason: "an empty answer", in: ironic{body: " "}, want: "BadAnswer"},
		"garbage":     {reason: "a login page of another program", in: ironic{body: "<html>"}, want: "BadAnswer"},
		"half a body": {reason: "the connection broke", in: ironic{cut: true}, want: "Broken"},
		"half a document": {
			reason: "incomplete JSON", in: ironic{body: wellDone[:len(wellDone)-3]}, want: "BadAnswer"},
		"two documents": {reason: "more than one document", in: ironic{body: wellDone + "{}"}, want: "BadAnswer"},
		"wrong types":   {reason: "another API", in: ironic{body: `{"drivers": {"hosts": "` + conductor + `"}}`}, want: "BadAnswer"},
		"no drivers":    {reason: "the conductor is gone", in: ironic{body: `{"drivers": []}`}, want: "NoConductor"},
		"null":          {reason: "JSON without a value", in: ironic{body: `null`}, want: "NoConductor"},
		"no hosts":      {reason: "the conductor is gone", in: ironic{body: `{"drivers": [{"name": "redfish", "hosts": []}]}`}, want: "NoConductor"},
		"foreign conductor": {
			reason: "the Ironic of another cluster on our port",
			in:     ironic{body: `{"drivers": [{"name": "redfish", "hosts": ["` + conductor + `0"]}]}`}, want: "ForeignConductor"},
		"certificate of another address": {
			reason: "clients of the VIP would refuse it",
			in:     ironic{certificate: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }}, want: "CertificateWrong"},
		"certificate of another authority": {
			reason: "clients would refuse it", in: ironic{foreignCA: true}, want: "CertificateWrong"},
		"certificate of the past": {
			reason: "clients would refuse it",
			in:     ironic{certificate: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }}, want: "CertificateExpired"},
		"certificate of the future": {
			reason: "the clock of this node or of the issuer is wrong",
			in:     ironic{certificate: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }}, want: "CertificateExpired"},
		"no ramdisk":   {reason: "hosts could not boot", in: ironic{images: map[string]int{"ramdisk": 404}}, want: "ImageMissing"},
		"no kernel":    {reason: "hosts could not boot", in: ironic{images: map[string]int{"kernel": 500}}, want: "ImageMissing"},
		"empty images": {reason: "a failed download", in: ironic{emptyImages: true}, want: "ImageMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prober, _ := newProber(t, test.in)
			err := prober.Check(context.Background())
			if got := health.ReasonOf(err); got != test.want {
				t.Errorf("%s: got %q, want %q: %v", test.reason, got, test.want, err)
			}
		})
	}
}

// TestPartOf tells an Ironic that fails from its web server, and both from files.
func TestPartOf(t *testing.T) {
	t.Parallel()
	outdated := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	for name, test := range map[string]struct {
		in   ironic
		want health.Part
	}{
		"well":            {ironic{}, health.Node},
		"no Ironic":       {ironic{gone: true}, health.Ironic},
		"slow Ironic":     {ironic{slow: true}, health.Ironic},
		"broken Ironic":   {ironic{status: 503}, health.Ironic},
		"no drivers":      {ironic{body: `{"drivers": []}`}, health.Ironic},
		"neither":         {ironic{gone: true, webGone: true}, health.Ironic},
		"no web server":   {ironic{webGone: true}, health.WebServer},
		"error":           {ironic{webStatus: 503}, health.WebServer},
		"no image server": {ironic{imagesGone: true}, health.WebServer},
		"no ramdisk":      {ironic{images: map[string]int{"ramdisk": 404}}, health.Files},
		"old certificate": {ironic{certificate: outdated}, health.Files},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prober, _ := newProber(t, test.in)
			err := prober.Check(t.Context())
			if got := health.PartOf(err); got != test.want {
				t.Errorf("got %d, want %d, for %v", got, test.want, err)
			}
		})
	}
}

// TestSlowIronic has an Ironic that takes so long for each request that its socket answers in time, and its web server,
// which asks the same Ironic, does not. The check does not blame the web server, so the holder loses the VIP. It blames
// the web server if Ironic answers fast.
func TestSlowIronic(t *testing.T) {
	t.Parallel()
	// The margins are seconds on a busy machine.
	const limit = 3 * health.Timeout
	for name, test := range map[string]struct {
		in   ironic
		part health.Part
		// falls is when the holder loses the VIP. Zero means never.
		falls time.Duration
	}{
		"each request takes a little more than half of the limit": {
			ironic{delay: limit/2 + 100*time.Millisecond}, health.Node, health.Patience},
		"each request takes most of the limit": {
			ironic{delay: limit - 4*time.Second}, health.Node, health.Patience},
		"it and the images take almost half of the limit": {
			ironic{delay: limit/2 - 400*time.Millisecond, imageDelay: time.Second}, health.Node, health.Patience},
		"the images alone do not arrive": {
			ironic{delay: time.Second, imageDelay: limit}, health.WebServer, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prober, _ := newProber(t, test.in)
			prober.SetLimit(limit)
			err := prober.Check(t.Context())
			if !health.IsSlow(err) || health.PartOf(err) != test.part {
				t.Fatalf("the part %d is %q: %v", health.PartOf(err), health.ReasonOf(err), err)
			}
			if says := strings.HasPrefix(err.Error(), "the Ironic of this node took "); says != (test.part == health.Node) {
				t.Errorf("the error is %q", err)
			}
			start := time.Now()
			var debounce health.Debounce
			debounce.Resume(start)
			var after time.Duration
			for after < time.Hour && debounce.Add(err, start.Add(after), true) {
				after += health.Interval
			}
			if after != test.falls && test.falls != 0 || test.falls == 0 && after < time.Hour {
				t.Errorf("the holder loses the VIP after %s, want %s", after, test.falls)
			}
		})
	}
}

// TestStalledClients has a web server that serves 400 connections at a time, as the event MPM of Apache does. As many
// clients connect and send nothing. The VIP holder keeps the VIP for hours, because Ironic answers on its socket.
func TestStalledClients(t *testing.T) {
	t.Parallel()
	const workers = 400
	prober, _ := newProber(t, ironic{webWorkers: workers})
	if err := prober.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range workers {
		client, err := new(net.Dialer).DialContext(t.Context(), "tcp",
			net.JoinHostPort("127.0.0.1", strconv.Itoa(prober.Target.APIPort)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
	}
	prober.SetLimit(3 * health.Timeout)
	err := prober.Check(t.Context())
	if health.ReasonOf(err) != "Slow" || health.PartOf(err) != health.WebServer {
		t.Fatalf("the web server is %q: %v", health.ReasonOf(err), err)
	}
	var debounce health.Debounce
	start := time.Now()
	debounce.Resume(start)
	for after := health.Timeout; after < 3*time.Hour; after += health.Timeout {
		if !debounce.Add(err, start.Add(after), true) {
			t.Fatalf("the holder is unhealthy after %s: its database ends", after)
		}
	}
}

// TestImages removes an image for some checks. Each check requests all images up to a missing one.
func TestImages(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	var asked []string
	missing := ""
	prober, _ := newProber(t, ironic{serve: func(image string) int {
		mutex.Lock()
		defer mutex.Unlock()
		asked = append(asked, image)
		if image == missing {
			return http.StatusNotFound
		}
		return http.StatusOK
	}})
	for number, step := range []struct{ missing, asked, want string }{
		{asked: "kernel ramdisk"},
		{asked: "kernel ramdisk"},
		{missing: "ramdisk", asked: "kernel ramdisk", want: "ImageMissing"},
		{missing: "kernel", asked: "kernel", want: "ImageMissing"},
		{asked: "kernel ramdisk"},
	} {
		mutex.Lock()
		asked, missing = nil, step.missing
		mutex.Unlock()
		got := health.ReasonOf(prober.Check(context.Background()))
		if said := strings.Join(asked, " "); said != step.asked || got != step.want {
			t.Errorf("check %d requested %q and returned %q, want %q and %q", number+1, said, got, step.asked, step.want)
		}
	}
}

// TestExpiry checks a certificate that expires after the first check.
func TestExpiry(t *testing.T) {
	t.Parallel()
	prober, clock := newProber(t, ironic{})
	if err := prober.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
	clock.Store(int64(48 * time.Hour))
	if got := health.ReasonOf(prober.Check(context.Background())); got != "CertificateExpired" {
		t.Errorf("got %q two days later", got)
	}
}

func TestNoAuthority(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	garbage := filepath.Join(folder, "garbage")
	if err := os.WriteFile(garbage, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(folder, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]health.Target{
		"authority": {Authority: filepath.Join(folder, "absent")},
		"PEM":       {Authority: garbage},
		"empty":     {Authority: empty},
	} {
		prober := health.Prober{Target: target}
		err := prober.Check(t.Context())
		if health.ReasonOf(err) != "NoAuthority" || !strings.Contains(err.Error(), name) {
			t.Errorf("without a good %s the error is %v", name, err)
		}
		if prober.Unsettled() == nil {
			t.Errorf("without a good %s the authorities are settled", name)
		}
	}
}

func TestDebounce(t *testing.T) {
	t.Parallel()
	for checks, want := range map[string]string{
		"":            "",
		"1":           "0",
		"11":          "00",
		"111":         "001",
		"1101":        "0000",
		"110111":      "000001",
		"11101":       "00111",
		"111001":      "001100",
		"11100111":    "00110001",
		"1110101010":  "0011111111",
		"00000":       "00000",
		"11100110111": "00110000001",
		// Slow checks count only after some time, and do not replace failed ones.
		"111s":      "0011",
		"1110s0":    "001110",
		"1110s10":   "0011111",
		"1s1s11":    "000000",
		"111sss":    "001111",
		"111ssss":   "0011110",
		"111sss1ss": "001111111",
		"111ss0ss":  "00111110",
	} {
		outcomes := map[rune]error{'0': errors.New("no"), 's': &health.Failure{Reason: "Slow"}}
		var debounce health.Debounce
		var got strings.Builder
		now := time.Unix(1000, 0)
		for _, check := range checks {
			now = now.Add(map[bool]time.Duration{true: health.Timeout, false: health.Interval}[check == 's'])
			got.WriteString(map[bool]string{true: "1", false: "0"}[debounce.Add(outcomes[check], now, false)])
		}
		if got.String() != want {
			t.Errorf("checks %s: got %s, want %s", checks, got.String(), want)
		}
	}
}

// TestPatience tests the Ironic of the VIP holder, which may be slow, and its web server, which may restart.
func TestPatience(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	failure := errors.New("no")
	for name, test := range map[string]struct {
		after   time.Duration
		holding bool
		want    bool
	}{
		"holder":                     {health.Patience - 1, true, true},
		"holder, too long":           {health.Patience, true, false},
		"standby":                    {time.Second, false, false},
		"standby after a resume":     {0, false, false},
		"holder, after two timeouts": {2 * health.Timeout, true, true},
		"holder, just after a good":  {0, true, true},
	} {
		var debounce health.Debounce
		debounce.Resume(began)
		debounce.Add(failure, began, test.holding)
		if got := debounce.Add(failure, began.Add(test.after), test.holding); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	var debounce health.Debounce
	debounce.Continue(began)
	if debounce.Add(failure, began, true) {
		t.Error("an Ironic that was never healthy is healthy on the holder")
	}
	debounce.Resume(began)
	debounce.Continue(began.Add(health.Patience))
	if !debounce.Add(failure, began.Add(health.Patience+time.Second), true) {
		t.Error("an interval without checks counts as a failure")
	}
}

// TestWebServerAlone tests how long a node is healthy while Ironic answers and its web server does not.
func TestWebServerAlone(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	// Patience begins with the last check before the end of WebServerPatience.
	const falls = health.WebServerPatience - health.Interval + health.Patience
	for name, test := range map[string]struct {
		reason   string
		part     health.Part
		failures []string
		holding  bool
		want     time.Duration
	}{
		"holder, refused":   {"the kubelet cannot start it", health.WebServer, []string{"Refused"}, true, falls},
		"holder, broken":    {"it accepts, and ends connections", health.WebServer, []string{"Broken"}, true, falls},
		"holder, error":     {"it does not reach the socket of Ironic", health.WebServer, []string{"APIStatus"}, true, falls},
		"holder, no images": {"hosts cannot boot", health.WebServer, []string{"ImageRefused"}, true, falls},
		"holder, in turn":   {"the reason does not matter", health.WebServer, []string{"ImageBroken", "Refused"}, true, falls},
		"holder, slow":      {"the clients follow the VIP", health.WebServer, []string{"Slow"}, true, 0},
		"holder, slow images": {
			"hosts download images", health.WebServer, []string{"ImageSlow"}, true, 0},
		"holder, restarts": {
			"clients keep it busy, and the kubelet restarts it now and then", health.WebServer, []string{"Refused", "Refused", "Slow"}, true, 0},
		"holder, slow Ironic":  {"Ironic fails for too long", health.Ironic, []string{"Slow"}, true, health.Patience},
		"holder, certificate":  {"clients refuse it", health.Files, []string{"CertificateExpired"}, true, health.Patience},
		"holder, missing file": {"hosts cannot boot", health.Files, []string{"ImageMissing"}, true, health.Patience},
		"standby, refused":     {"it has no database", health.WebServer, []string{"Refused"}, false, health.Interval},
		"standby, slow":        {"it has no database", health.WebServer, []string{"Slow"}, false, health.SlowPatience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var debounce health.Debounce
			debounce.Resume(start)
			for number := range 3600 {
				after := time.Duration(number) * health.Interval
				failure := &health.Failure{test.failures[number%len(test.failures)], errors.New("no"), test.part}
				if !debounce.Add(failure, start.Add(after), test.holding) {
					if after != test.want {
						t.Errorf("%s: unhealthy after %s, want %s", test.reason, after, test.want)
					}
					return
				}
			}
			if test.want != 0 {
				t.Errorf("%s: healthy for an hour", test.reason)
			}
		})
	}
}

// TestVIPReturns lets the VIP leave a holder with a slow web server for a moment. The check of that moment must not end
// the term.
func TestVIPReturns(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"Slow", "Refused"} {
		failure := &health.Failure{reason, errors.New("no"), health.WebServer}
		now := time.Unix(1000, 0)
		var debounce health.Debounce
		debounce.Resume(now)
		for number := range 60 {
			now = now.Add(health.Timeout)
			if !debounce.Add(failure, now, number%10 < 9) {
				t.Fatalf("%s: unhealthy after check %d", reason, number)
			}
		}
	}
}

// api is the Ironic API. A slow one blocks until it is released.
func (in ironic) api(released <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		<-time.After(in.delay)
		switch {
		case in.slow:
			select {
			case <-released:
			case <-request.Context().Done():
			}
		case request.URL.Path == "/v1":
		case request.URL.Path != "/v1/drivers":
			writer.WriteHeader(http.StatusTeapot)
		case in.status != 0:
			writer.Header().Set("Location", "/v1/drivers?again")
			writer.WriteHeader(in.status)
		case in.cut:
			writer.Header().Set("Content-Length", strconv.Itoa(len(wellDone)))
			_, _ = io.WriteString(writer, wellDone[:10])
		case in.body != "":
			_, _ = io.WriteString(writer, in.body)
		default:
			_, _ = io.WriteString(writer, wellDone)
		}
	})
}

// webServer is the web server in front of Ironic. It requires no password for one path, which it requests from Ironic.
func (in ironic) webServer(api http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		switch {
		case request.URL.Path != "/v1":
			writer.WriteHeader(http.StatusUnauthorized)
		case in.webStatus != 0:
			writer.WriteHeader(in.webStatus)
		default:
			api.ServeHTTP(writer, request)
		}
	})
}

// imageServer serves kernel and ramdisk.
func (in ironic) imageServer() http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		<-time.After(in.imageDelay)
		image := strings.TrimPrefix(request.URL.Path, "/images/")
		status := in.images[image]
		if in.serve != nil {
			status = in.serve(image)
		}
		if in.emptyImages {
			writer.Header().Set("Content-Length", "0")
		} else {
			writer.Header().Set("Content-Length", "5")
		}
		writer.WriteHeader(max(status, http.StatusOK))
	})
}

// newProber starts the node. The returned number of seconds advances the clock.
func newProber(t *testing.T, in ironic) (*health.Prober, *atomic.Int64) {
	t.Helper()
	authority, pair := issue(t, in.certificate)
	if in.foreignCA {
		authority, _ = issue(t, nil)
	}
	released := make(chan struct{})
	folder := t.TempDir()
	socket := filepath.Join(folder, "ironic.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewUnstartedServer(in.api(released))
	_ = api.Listener.Close()
	api.Listener = listener
	api.Start()
	web := httptest.NewUnstartedServer(in.webServer(api.Config.Handler))
	web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	web.Config.ErrorLog = nil
	if in.webWorkers > 0 {
		web.Listener = busyListener{web.Listener, make(chan struct{}, in.webWorkers)}
	}
	web.StartTLS()
	images := httptest.NewServer(in.imageServer())
	if in.gone {
		api.Close()
	}
	if in.webGone {
		web.Close()
	}
	if in.imagesGone {
		images.Close()
	}
	t.Cleanup(func() {
		close(released)
		api.Close()
		web.Close()
		images.Close()
	})
	file := filepath.Join(folder, "ca")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	target := health.Target{
		Socket: socket, APIPort: portOf(t, web.Listener), ImagePort: portOf(t, images.Listener),
		Address: netip.MustParseAddr(address), Conductor: conductor, Authority: file,
		Images: []string{"kernel", "ramdisk"},
	}
	if in.skipImages {
		target.Images = nil
	}
	var clock atomic.Int64
	prober := &health.Prober{
		Target: target, Now: func() time.Time { return time.Now().Add(time.Duration(clock.Load())) },
	}
	prober.SetLimit(time.Minute)
	if in.slow {
		prober.SetLimit(time.Second)
	}
	return prober, &clock
}

// busyListener accepts a connection when a worker is free.
type busyListener struct {
	net.Listener

	workers chan struct{}
}

func (l busyListener) Accept() (net.Conn, error) {
	l.workers <- struct{}{}
	accepted, err := l.Listener.Accept()
	return &busyConn{Conn: accepted, free: sync.OnceFunc(func() { <-l.workers })}, err
}

type busyConn struct {
	net.Conn

	free func()
}

func (c *busyConn) Close() error {
	c.free()
	return c.Conn.Close()
}

func portOf(t *testing.T, listener net.Listener) int {
	t.Helper()
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := fmt.Sscan(text, &number); err != nil {
		t.Fatal(err)
	}
	return number
}

// issue creates an authority and a certificate that the function may change.
func issue(t *testing.T, change func(*x509.Certificate)) ([]byte, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-96 * time.Hour), NotAfter: time.Now().Add(96 * time.Hour),
	}
	rawAuthority, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(certificate)
	}
	raw, err := x509.CreateCertificate(rand.Reader, certificate, authority, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rawAuthority}),
		tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func TestIsSlow(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{"Slow": true, "ImageSlow": true, "Refused": false, "APIStatus": false} {
		if got := health.IsSlow(&health.Failure{Reason: reason, Cause: errors.New(reason)}); got != want {
			t.Errorf("%s: got %t", reason, got)
		}
	}
	if health.IsSlow(nil) {
		t.Error("a check that succeeded is slow")
	}
}

// TestDebounceOfANewHolder has a slow Ironic on a node that takes the VIP.
func TestDebounceOfANewHolder(t *testing.T) {
	t.Parallel()
	start, slow := time.Unix(1000, 0), &health.Failure{Reason: "Slow"}
	var debounce health.Debounce
	debounce.Resume(start)
	for _, test := range []struct {
		after         time.Duration
		holding, want bool
	}{
		{health.Patience - time.Second, false, true},
		{health.Patience + time.Second, true, true},
		{2*health.Patience + time.Second - 1, true, true},
		{2*health.Patience + time.Second, true, false},
	} {
		if got := debounce.Add(slow, start.Add(test.after), test.holding); got != test.want {
			t.Errorf("after %s: got %v", test.after, got)
		}
	}
}
