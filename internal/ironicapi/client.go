package ironicapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/conductors"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/drivers"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
	"github.com/gophercloud/gophercloud/v2/pagination"
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
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			// The VIP moves. A kept connection would lead to the previous holder.
			DisableKeepAlives: true,
		},
		// Credentials are for this endpoint only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirected },
	}
	return &Client{service: service}, nil
}

// errRedirected is the error for an endpoint that redirects.
var errRedirected = errors.New("the endpoint redirects to another one")

// Observe returns the conductors that answer and the nodes that they have registered. It returns the earlier
// observation last if the same conductors answer. It blocks until the endpoint answers, or for the timeout of a
// request.
func (c *Client) Observe(ctx context.Context, last *Observation) Observation {
	// The first request works with every version, and gives the best error for a wrong server.
	live, err := c.conductors(ctx)
	if err != nil {
		return failed(err)
	}
	if last != nil && last.Answer == Answers && slices.Equal(last.Conductors, live) {
		return *last
	}
	versions, err := utils.GetSupportedMicroversions(ctx, c.service)
	if err != nil {
		return failed(fmt.Errorf("reading the versions: %w", err))
	}
	newest := fmt.Sprintf("%d.%d", versions.MaxMajor, versions.MaxMinor)
	if supported, err := versions.IsSupported(MinimumVersion); err != nil || !supported {
		return Observation{
			Answer: Unsupported, Version: newest,
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
	return Observation{Answer: Answers, Version: newest, Conductors: live, Terms: terms, Nodes: known, IDs: ids}
}

// conductors returns the sorted names of the conductors with drivers.
func (c *Client) conductors(ctx context.Context) ([]string, error) {
	page, err := drivers.ListDrivers(c.service, drivers.ListDriversOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing drivers: %w", err)
	}
	listed, err := drivers.ExtractDrivers(page)
	if err != nil {
		return nil, fmt.Errorf("reading the drivers: %w", err)
	}
	var names []string
	for _, driver := range listed {
		names = append(names, driver.Hosts...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// terms returns the times at which conductors registered with their database, by name. It is empty if the policy of
// Ironic hides its conductors.
func (c *Client) terms(ctx context.Context) (map[string]string, error) {
	versioned := *c.service
	versioned.Microversion = MinimumVersion
	page, err := conductors.List(&versioned, conductors.ListOpts{Detail: true}).AllPages(ctx)
	if gophercloud.ResponseCodeIs(err, http.StatusForbidden) || gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing conductors: %w", err)
	}
	listed, err := conductors.ExtractConductors(page)
	if err != nil {
		return nil, fmt.Errorf("reading the conductors: %w", err)
	}
	var terms map[string]string
	for i := range listed {
		if listed[i].CreatedAt.IsZero() {
			continue
		}
		if terms == nil {
			terms = map[string]string{}
		}
		terms[listed[i].Hostname] = listed[i].CreatedAt.UTC().Format(time.RFC3339)
	}
	return terms, nil
}

// nodes returns the states and the UUIDs of all nodes by name. Nodes without a name are not registered by BMO.
func (c *Client) nodes(ctx context.Context) (states, ids map[string]string, err error) {
	versioned := *c.service
	versioned.Microversion = MinimumVersion
	states, ids = map[string]string{}, map[string]string{}
	options := nodes.ListOpts{Fields: []string{"uuid", "name", "provision_state"}}
	err = nodes.List(&versioned, options).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		listed, err := nodes.ExtractNodes(page)
		if err != nil {
			return false, fmt.Errorf("reading the nodes: %w", err)
		}
		for i := range listed {
			if listed[i].Name != "" {
				states[listed[i].Name], ids[listed[i].Name] = listed[i].ProvisionState, listed[i].UUID
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing nodes: %w", err)
	}
	return states, ids, nil
}
