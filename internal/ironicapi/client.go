package ironicapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// MinimumVersion is the oldest supported version of the API of Ironic, and the version of requests. BMO has the same
// minimum.
const MinimumVersion = "1.89"

// defaultTimeout is the timeout of one request.
const defaultTimeout = 5 * time.Second

// Endpoint has the URL, credentials and authority of an Ironic endpoint.
type Endpoint struct {
	// URL of the API with its version, such as https://172.22.0.2:6385/v1/.
	URL string

	// Username and Password for HTTP basic authentication. Both are required.
	Username, Password string

	// Authority is the PEM bundle that verifies the certificate of the endpoint. It is required: the VIP moves between
	// nodes, which must prove their identity.
	Authority []byte

	// Timeout of one request. Zero means 5 seconds.
	Timeout time.Duration
}

const (
	// maxAnswer is the limit of one answer in bytes. The largest answer of an Ironic is a page of nodes: fewer than
	// 400 bytes for each node with a name of 255 characters.
	maxAnswer = 1 << 20

	// pageSize is the number of nodes in one answer, which is the default limit of Ironic.
	pageSize = 1000

	// maxPages and maxNodes are limits of the list of nodes, far more than one Ironic serves.
	maxPages = 50
	maxNodes = maxPages * pageSize
)

// errTooMany is the error for an endpoint with more than maxPages or maxNodes.
var errTooMany = fmt.Errorf("it lists more than %d nodes, or more than %d pages of nodes", maxNodes, maxPages)

// limited ends answers with an error after maxAnswer. A root user of a node can replace Ironic, and an answer without
// an end would exhaust the memory of the manager.
type limited struct {
	next http.RoundTripper
}

// RoundTrip sends a request, and limits the answer.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	return response, nil
}

// Client reads from one endpoint.
type Client struct {
	service *gophercloud.ServiceClient
}

// New returns a client. It returns an error if the endpoint is incomplete or its authority has no certificate. It sends
// no request.
func New(endpoint Endpoint) (*Client, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(endpoint.Authority) {
		return nil, fmt.Errorf("reading the authority of %s: no certificate in PEM format is in it", endpoint.URL)
	}
	service, err := httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
		IronicEndpoint: endpoint.URL, IronicUser: endpoint.Username, IronicUserPassword: endpoint.Password,
	})
	if err != nil {
		return nil, fmt.Errorf("using the endpoint %q: %w", endpoint.URL, err)
	}
	timeout := endpoint.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	service.HTTPClient = http.Client{
		Timeout: timeout,
		Transport: limited{&http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			// The VIP moves. A kept connection would lead to the previous holder.
			DisableKeepAlives: true,
			// A small compressed answer may be a large one.
			DisableCompression: true,
		}},
		// Credentials are for this endpoint only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}
	return &Client{service: service}, nil
}

// errRedirected is the error for an endpoint that redirects.
var errRedirected = errors.New("the endpoint redirects to another one")

// Observe returns the conductors that answer, the nodes that they have registered, and the validity of the certificate.
// If the same conductors answer as in the earlier observation last, it returns the nodes of last. It blocks until the
// endpoint answers, or for the timeout of a request.
func (c *Client) Observe(ctx context.Context, last *Observation) Observation {
	// The first request works with every version, and gives the best error for a wrong server.
	live, served, err := c.conductors(ctx)
	if err != nil {
		return failed(err)
	}
	if last != nil && last.Answer == pivot.Answers && slices.Equal(last.Conductors, live) {
		again := *last
		again.Certificate = served
		return again
	}
	versions, err := utils.GetSupportedMicroversions(ctx, c.service)
	if err != nil {
		return failed(fmt.Errorf("reading the versions: %w", err))
	}
	newest := fmt.Sprintf("%d.%d", versions.MaxMajor, versions.MaxMinor)
	if supported, err := versions.IsSupported(MinimumVersion); err != nil || !supported {
		return Observation{
			Answer: pivot.Unsupported, Version: newest,
			Detail: fmt.Sprintf("the server supports versions up to %s, required is %s", newest, MinimumVersion),
		}
	}
	known, ids, err := c.nodes(ctx)
	if err != nil {
		return failed(err)
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return failed(err)
	}
	return Observation{
		Answer: pivot.Answers, Version: newest, Conductors: live, Terms: terms, Nodes: known, IDs: ids, Certificate: served,
	}
}

// conductors returns the sorted names of the conductors with drivers, and the validity of the certificate.
func (c *Client) conductors(ctx context.Context) (names []string, served Validity, err error) {
	var listed struct {
		Drivers []struct {
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	if served, err = get(ctx, c.service, "drivers", nil, &listed); err != nil {
		return nil, Validity{}, fmt.Errorf("listing drivers: %w", err)
	}
	for _, driver := range listed.Drivers {
		names = append(names, driver.Hosts...)
	}
	slices.Sort(names)
	return slices.Compact(names), served, nil
}

// terms returns the times at which conductors registered with their database, by name. It is empty if the policy of
// Ironic hides its conductors.
func (c *Client) terms(ctx context.Context) (map[string]string, error) {
	var listed struct {
		Conductors []struct {
			Hostname  string    `json:"hostname"`
			CreatedAt time.Time `json:"created_at"`
		} `json:"conductors"`
	}
	_, err := get(ctx, c.versioned(), "conductors", url.Values{"detail": {"true"}}, &listed)
	if gophercloud.ResponseCodeIs(err, http.StatusForbidden) || gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing conductors: %w", err)
	}
	var terms map[string]string
	for _, conductor := range listed.Conductors {
		if conductor.CreatedAt.IsZero() {
			continue
		}
		if terms == nil {
			terms = map[string]string{}
		}
		terms[conductor.Hostname] = conductor.CreatedAt.UTC().Format(time.RFC3339)
	}
	return terms, nil
}

// nodes returns the states and the UUIDs of all nodes by name. Nodes without a name are not registered by BMO. It
// returns an error for more than maxPages or maxNodes.
func (c *Client) nodes(ctx context.Context) (states, ids map[string]string, err error) {
	states, ids = map[string]string{}, map[string]string{}
	query, seen := url.Values{"fields": {"uuid,name,provision_state"}, "limit": {strconv.Itoa(pageSize)}}, 0
	for range maxPages {
		var page struct {
			Nodes []struct {
				UUID           string `json:"uuid"`
				Name           string `json:"name"`
				ProvisionState string `json:"provision_state"`
			} `json:"nodes"`
			Next string `json:"next"`
		}
		if _, err := get(ctx, c.versioned(), "nodes", query, &page); err != nil {
			return nil, nil, fmt.Errorf("listing nodes: %w", err)
		}
		if seen += len(page.Nodes); seen > maxNodes {
			break
		}
		for _, node := range page.Nodes {
			if node.Name != "" {
				states[node.Name], ids[node.Name] = node.ProvisionState, node.UUID
			}
			// With the marker, requests go to the endpoint also if Next names another server.
			query.Set("marker", node.UUID)
		}
		if page.Next == "" || len(page.Nodes) == 0 {
			return states, ids, nil
		}
	}
	return nil, nil, fmt.Errorf("listing nodes: %w", errTooMany)
}

// versioned returns the service with MinimumVersion.
func (c *Client) versioned() *gophercloud.ServiceClient {
	versioned := *c.service
	versioned.Microversion = MinimumVersion
	return &versioned
}

// get decodes the fields of an answer that the client uses, and returns the validity of the certificate. The pages of
// gophercloud decode an answer several times, with all fields: a page of empty nodes within maxAnswer would take
// hundreds of megabytes.
func get(
	ctx context.Context, service *gophercloud.ServiceClient, collection string, query url.Values, into any,
) (Validity, error) {
	from := service.ServiceURL(collection)
	if len(query) > 0 {
		from += "?" + query.Encode()
	}
	//nolint:bodyclose // The library closes the body when it has decoded the answer.
	response, err := service.Get(ctx, from, into, nil)
	if err != nil || response.TLS == nil {
		return Validity{}, err
	}
	return ValidityOf(response.TLS.PeerCertificates[0]), nil
}
