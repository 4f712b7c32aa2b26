// Package health checks whether the Ironic of this node could serve hosts if the node held the VIP.
//
// Everything but the expected answer in time counts as a failure: a slow answer, a redirect, half a document, an
// answer of the Ironic of another cluster, a certificate that clients of the VIP would refuse.
package health

import (
	"cmp"
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
	// APIPort and ImagePort of the services of this node.
	APIPort, ImagePort int

	// Socket of Ironic behind its web server. It requires no password.
	Socket string

	// Address that clients use. The certificate must be valid for it.
	Address netip.Addr

	// Conductor is the name of the conductor of this node.
	Conductor string

	// Authority is the file with the authorities that may have signed the certificate. It may change at any time.
	Authority string

	// Images are files that must be served.
	Images []string
}

// Prober checks one target. It is not safe for concurrent use.
type Prober struct {
	// Target may change. The prober keeps the trusted authorities until the web server of the target shows a certificate
	// of its authority.
	Target Target

	// Now is the clock that certificates are checked with. Nil means time.Now.
	Now func() time.Time

	trust trust

	// limit of one check. Zero means Timeout.
	limit time.Duration

	// unread is the error of the last read of the authorities.
	unread error
}

// ironicHost stands for the socket of Ironic in URLs.
const ironicHost = "ironic"

// client returns a client that follows no redirects. Each request has a connection of its own, so that each check
// reaches the current process.
func (p *Prober) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == net.JoinHostPort(ironicHost, "80") {
					network, address = "unix", p.Target.Socket
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: p.trust.pool(), ServerName: p.Target.Address.String(), Time: p.Now,
			},
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Unsettled returns an error while the file with the authorities cannot be read, or while authorities count that are
// not in the file.
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

func (p *Prober) timeout() time.Duration { return cmp.Or(p.limit, Timeout) }

// slowIronic is the limit of an Ironic that answers fast. It leaves the web server, which asks Ironic again, twice as
// much time.
func (p *Prober) slowIronic() time.Duration { return p.timeout() / 3 }

// Check returns nil if Ironic is healthy, and otherwise a *Failure. It requests the conductor from
// Ironic, the version of the API from the web server, which requires no credentials, and all images.
func (p *Prober) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	if p.unread = p.trust.follow(p.Target.Authority); len(p.trust.now) == 0 {
		return &Failure{Reason: "NoAuthority", Cause: p.unread}
	}
	client, began := p.client(), time.Now()
	body, _, err := get(ctx, client, "http://"+ironicHost+"/v1/drivers")
	if err == nil {
		err = judgeDrivers(body, p.Target.Conductor)
	}
	if err != nil {
		return &Failure{ReasonOf(err), err, Ironic}
	}
	took := time.Since(began)
	err = p.checkWebServer(ctx, client)
	switch {
	case err == nil:
		return nil
	case IsSlow(err) && took > p.slowIronic():
		err = fmt.Errorf("the Ironic of this node took %s to answer on its socket, so that a check with its web server "+
			"takes longer than %s: %w", took.Round(time.Millisecond), p.timeout(), err)
		return &Failure{slow, err, Node}
	default:
		return &Failure{ReasonOf(err), err, behind(err)}
	}
}

// checkWebServer requests what hosts do.
func (p *Prober) checkWebServer(ctx context.Context, client *http.Client) error {
	// Hosts have no password.
	_, connection, err := get(ctx, client, "https://"+local(p.Target.APIPort)+"/v1")
	if err != nil {
		return err
	}
	p.trust.shown(connection)
	for _, image := range p.Target.Images {
		if err := checkImage(ctx, client, "http://"+local(p.Target.ImagePort)+path.Join("/images", image)); err != nil {
			return err
		}
	}
	return nil
}

// local returns the address of a service of this node.
func local(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// get returns the answer and the connection of a request if its status is 200.
func get(ctx context.Context, client *http.Client, address string) ([]byte, *tls.ConnectionState, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, nil, &Failure{Reason: "NoRequest", Cause: err}
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, &Failure{Reason: reasonOf(err), Cause: err}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, nil, &Failure{Reason: apiStatus, Cause: fmt.Errorf("%s answered %s", address, response.Status)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, nil, &Failure{Reason: reasonOf(err), Cause: err}
	}
	return body, response.TLS, nil
}

// judgeDrivers returns an error unless the conductor of this node serves a driver.
func judgeDrivers(body []byte, conductor string) error {
	var answer struct {
		Drivers []struct {
			Name  string   `json:"name"`
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return &Failure{Reason: "BadAnswer", Cause: fmt.Errorf("the Ironic API answered no JSON: %w", err)}
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
		err := fmt.Errorf("the Ironic on this node is served by %q, not by %s", slices.Compact(others), conductor)
		return &Failure{Reason: "ForeignConductor", Cause: err}
	}
	return &Failure{Reason: "NoConductor", Cause: errors.New("the Ironic API has no driver with a conductor")}
}

func checkImage(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, http.NoBody)
	if err != nil {
		return &Failure{Reason: "NoRequest", Cause: err}
	}
	response, err := client.Do(request)
	if err != nil {
		return &Failure{Reason: "Image" + reasonOf(err), Cause: err}
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ContentLength == 0 {
		return &Failure{Reason: "ImageMissing", Cause: fmt.Errorf("requesting image %s: got %s and %d bytes",
			address, response.Status, response.ContentLength)}
	}
	return nil
}
