// Package health checks whether the Ironic of this node could serve hosts if the node held the VIP.
//
// Everything but the expected answer in time counts as a failure: a slow answer, a redirect, half a document, an
// answer of the Ironic of another cluster, a certificate that clients of the VIP would refuse.
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

// Timeout is the limit of one check with all its requests. On a busy node, Ironic answers in seconds. Another holder
// would start with an empty database, often on a node that is as busy. Two such checks take less time than Patience.
const Timeout = 4500 * time.Millisecond

// Interval is the time between the starts of two checks.
const Interval = time.Second

// maxAnswer is far larger than the list of drivers.
const maxAnswer = 1 << 20

// Target is what to check.
type Target struct {
	// Server is the address of the services of this node. 127.0.0.1 in production.
	Server string

	// APIPort and ImagePort of the services.
	APIPort, ImagePort int

	// Socket of Ironic behind its web server. It requires no password.
	Socket string

	// Address that clients use. The certificate must be valid for it.
	Address netip.Addr

	// Conductor is the name of the conductor of this node.
	Conductor string

	// Authority is the file with the authorities that may have signed the certificate. It may change at any time.
	Authority string

	// Images are files that must be served. A check requests one of them, so it takes several checks to detect a
	// missing one.
	Images []string
}

// Prober checks one target. It is not safe for concurrent use.
type Prober struct {
	target Target
	now    func() time.Time
	trust  trust

	// unread is the error of the last read of the authorities.
	unread error

	// client sends requests to the web server with this version of the trust, and ironic to the socket of Ironic.
	client, ironic *http.Client
	version        int

	// turn is the next image. While complete is false, a check requests all of them.
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

// Aim changes the target. The prober keeps the trusted authorities until the web server of the target shows a
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

// connect creates a new client when the trusted authorities change. Each request has a connection of its own, so that
// each check reaches the current process.
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

// Unsettled returns an error while authorities count that are not in the file.
func (p *Prober) Unsettled() error {
	switch {
	case p.unread != nil:
		return p.unread
	case len(p.trust.before) > 0:
		return errors.New("the web server has a certificate of the previous authority, which counts until it is replaced")
	default:
		return nil
	}
}

// without returns a client that follows no redirects.
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

// Check returns nil if Ironic is healthy, and a *Failure otherwise. It requests the conductor from Ironic, and the
// version of the API from the web server, which requires no credentials. The first check and one after a failure
// request all images. The others request one of them, in turn.
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
		// The next check begins with the missing image.
		if err := p.checkImage(ctx, p.target.Images[p.turn]); err != nil {
			return err
		}
		p.turn = (p.turn + 1) % len(p.target.Images)
	}
	p.complete = true
	return nil
}

// checkConductor sends a request to the socket of Ironic.
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

// checkAPI sends a request to the web server without a password, as hosts do.
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

// get returns the response if its status is 200.
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

// judgeDrivers returns an error unless the conductor of this node serves a driver.
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
	return &Failure{"NoConductor", errors.New("the Ironic API has no driver with a conductor")}
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
		return &Failure{"ImageMissing", fmt.Errorf("requesting image %s: got %s and %d bytes",
			image, response.Status, response.ContentLength)}
	}
	return nil
}
