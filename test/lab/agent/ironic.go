package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// heartbeatVersion is the version of Ironic's API that ironic-python-agent 10.2 requests.
	heartbeatVersion = "1.68"
	versionHeader    = "X-OpenStack-Ironic-API-Version"
	requestLimit     = 30 * time.Second
	// answerLimit is the maximum number of read bytes of a response.
	answerLimit = 1 << 20
	// hiddenToken replaces a token in a lookup after the first one.
	hiddenToken = "******"
)

// ironicClient sends requests to the public API of Ironic.
type ironicClient struct {
	base   string
	client *http.Client
}

func newIronicClient(options Options) (ironicClient, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	parameters := options.Parameters
	switch {
	case parameters.Insecure:
		config.InsecureSkipVerify = true
	case len(parameters.Authority) > 0:
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(parameters.Authority) {
			return ironicClient{}, errors.New("the certificate authority on the medium is not in PEM")
		}
	}
	return ironicClient{base: parameters.API, client: &http.Client{
		Timeout: requestLimit, Transport: &http.Transport{DialContext: options.Dial, TLSClientConfig: config},
	}}, nil
}

// lookup is the response to a lookup by a hardware address.
type lookup struct {
	Node struct {
		UUID string `json:"uuid"`
	} `json:"node"`
	Config struct {
		HeartbeatTimeout int    `json:"heartbeat_timeout"`
		Token            string `json:"agent_token"`
	} `json:"config"`
}

func (c ironicClient) lookUp(ctx context.Context, mac string) (lookup, error) {
	var found lookup
	answer, err := c.do(ctx, http.MethodGet, c.base+"/v1/lookup?addresses="+url.QueryEscape(mac), heartbeatVersion, nil)
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		return found, fmt.Errorf("reading the answer to a lookup: %w", err)
	}
	if found.Config.Token == hiddenToken {
		found.Config.Token = ""
	}
	return found, nil
}

// heartbeat reports that the agent is alive, with its URL.
type heartbeat struct {
	CallbackURL string `json:"callback_url"`
	Version     string `json:"agent_version"`
	Token       string `json:"agent_token"`
	Authority   string `json:"agent_verify_ca"`
}

func (c ironicClient) beat(ctx context.Context, node string, message heartbeat) error {
	return c.post(ctx, c.base+"/v1/heartbeat/"+node, heartbeatVersion, message)
}

func (c ironicClient) post(ctx context.Context, address, version string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, http.MethodPost, address, version, content)
	return err
}

func (c ironicClient) do(ctx context.Context, method, address, version string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if version != "" {
		request.Header.Set(versionHeader, version)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, request.URL.Path, response.Status, strings.TrimSpace(string(answer)))
	}
	return answer, err
}
