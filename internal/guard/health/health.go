// Package health finds out whether the Ironic of this node is well enough to hold the address: whether it would serve
// hosts if the address were here.
//
// It fails closed. Anything but the expected answer in time means no: a slow answer, a redirect, half a document, the
// right answer from the Ironic of another cluster, a certificate that clients of the VIP would refuse.
package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"time"
)

// Timeout bounds one check: all requests of it together.
const Timeout = 800 * time.Millisecond

// Interval is the time between the starts of two checks.
const Interval = time.Second

// maxAnswer is far more than the drivers of an Ironic take.
const maxAnswer = 1 << 20

// Target is what is checked.
type Target struct {
	// Server is where the services of this node answer; 127.0.0.1 in production.
	Server string

	// APIPort and ImagePort of the services.
	APIPort, ImagePort int

	// Socket is where Ironic itself listens, beside its web server. It asks for no password.
	Socket string

	// Address that clients use: the certificate has to be valid for it.
	Address netip.Addr

	// Conductor is the name of this node's conductor.
	Conductor string

	// Authority is the file with the authorities that may have signed the certificate. It may change at any time.
	Authority string

	// Images are files that have to be served. One that vanishes is noticed after as many checks as there are images.
	Images []string
}

// Prober checks one target. Not safe for concurrent use.
type Prober struct {
	target Target
	now    func() time.Time
	trust  trust

	// unread is why the authorities could not be read at the last check.
	unread error

	// client asks the web server with this version of the trust, and ironic asks what is behind it.
	client, ironic *http.Client
	version        int

	// turn is the image that is looked at next. As long as complete is false, a check looks at all of them.
	turn     int
	complete bool
}

// New returns an error if the authorities of the target cannot be read.
func New(target Target, now func() time.Time) (*Prober, error) {
	prober := &Prober{now: now}
	if err := prober.trust.follow(target.Authority); err != nil {
		return nil, err
	}
	prober.Aim(target)
	return prober, nil
}

// Aim checks another target from now on, and trusts what was trusted before until the web server of the target shows a
// certificate of its authority.
func (p *Prober) Aim(target Target) {
	p.Close()
	p.target, p.turn, p.complete = target, 0, false
	p.ironic = without(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", target.Socket)
		},
		MaxIdleConnsPerHost: 1,
		DisableCompression:  true,
	})
	p.client = nil
}

// connect makes a new client when other authorities are trusted than before. Each request has a connection of its own:
// each check sees what the port answers with now.
func (p *Prober) connect() {
	p.unread = p.trust.follow(p.target.Authority)
	if p.client != nil && p.version == p.trust.version {
		return
	}
	p.version = p.trust.version
	p.client = without(&http.Transport{
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: p.trust.pool(), ServerName: p.target.Address.String(), Time: p.now,
		},
		DisableKeepAlives:  true,
		DisableCompression: true,
	})
}

// Unsettled says why authorities count that are not in the file. Nil when only those of the file count.
func (p *Prober) Unsettled() error {
	switch {
	case p.unread != nil:
		return p.unread
	case len(p.trust.before) > 0:
		return errors.New("the web server has a certificate of the authority before, which counts until it has a new one")
	default:
		return nil
	}
}

// without is a client that follows no redirects.
func without(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes the connection to Ironic.
func (p *Prober) Close() {
	if p.ironic != nil {
		p.ironic.CloseIdleConnections()
	}
}

// Check returns nil when Ironic is well, and a *Failure otherwise. It asks Ironic for its conductor and the web server
// for the version of the API, which requires no credentials: these may change at any time. The first check, and one
// after a failure, requests all images. The others request one of them, in turn.
func (p *Prober) Check(ctx context.Context) error {
	err := p.check(ctx)
	if err != nil {
		p.complete = false
	}
	return err
}

func (p *Prober) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p.connect()
	if err := p.checkConductor(ctx); err != nil {
		return err
	}
	if err := p.checkAPI(ctx); err != nil {
		return err
	}
	count := len(p.target.Images)
	if p.complete {
		count = min(count, 1)
	}
	for range count {
		// The turn stays at an image that is missing: the next check begins with it.
		if err := p.checkImage(ctx, p.target.Images[p.turn]); err != nil {
			return err
		}
		p.turn = (p.turn + 1) % len(p.target.Images)
	}
	p.complete = true
	return nil
}

// checkConductor asks Ironic itself.
func (p *Prober) checkConductor(ctx context.Context) error {
	response, err := get(ctx, p.ironic, "http://localhost/v1/drivers")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return &Failure{reasonOf(err), err}
	}
	return judgeDrivers(body, p.target.Conductor)
}

// checkAPI asks the web server as hosts do, who have no password either.
func (p *Prober) checkAPI(ctx context.Context) error {
	address := "https://" + net.JoinHostPort(p.target.Server, strconv.Itoa(p.target.APIPort)) + "/v1"
	response, err := get(ctx, p.client, address)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)); err != nil {
		return &Failure{reasonOf(err), err}
	}
	p.trust.shown(response.TLS)
	return nil
}

// get returns the answer if it is 200.
func get(ctx context.Context, client *http.Client, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, &Failure{"NoRequest", err}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, &Failure{reasonOf(err), err}
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, &Failure{"APIStatus", fmt.Errorf("%s answered %s", address, response.Status)}
	}
	return response, nil
}

// judgeDrivers demands that a driver is served by our conductor.
func judgeDrivers(body []byte, conductor string) error {
	var answer struct {
		Drivers []struct {
			Name  string   `json:"name"`
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&answer); err != nil {
		return &Failure{"BadAnswer", fmt.Errorf("the Ironic API answered no JSON: %w", err)}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &Failure{"BadAnswer", errors.New("the Ironic API answered more than one JSON document")}
	}
	var others []string
	for _, driver := range answer.Drivers {
		if driver.Name != "" && slices.Contains(driver.Hosts, conductor) {
			return nil
		}
		others = append(others, driver.Hosts...)
	}
	if len(others) > 0 {
		slices.Sort(others)
		return &Failure{"ForeignConductor", fmt.Errorf("the Ironic on this node is served by %q, not by %s",
			slices.Compact(others), conductor)}
	}
	return &Failure{"NoConductor", errors.New("the Ironic API knows no driver with a conductor")}
}

func (p *Prober) checkImage(ctx context.Context, image string) error {
	address := "http://" + net.JoinHostPort(p.target.Server, strconv.Itoa(p.target.ImagePort)) +
		path.Join("/images", image)
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, http.NoBody)
	if err != nil {
		return &Failure{"NoRequest", err}
	}
	response, err := p.client.Do(request)
	if err != nil {
		return &Failure{"Image" + reasonOf(err), err}
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ContentLength == 0 {
		return &Failure{"ImageMissing", fmt.Errorf("the image %s is answered with %s and %d bytes",
			image, response.Status, response.ContentLength)}
	}
	return nil
}
