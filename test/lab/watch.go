package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// WatchIronic observes which machine holds the VIP of Ironic, which conductor answers and which machine serves DHCP,
// until the witness is stopped.
func (l *Lab) WatchIronic(ctx context.Context) (*witness.Witness, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(l.Ironic().Authority) {
		return nil, errors.New("watching Ironic: its authority is not a PEM certificate")
	}
	// Each request opens a new connection.
	httpClient := &http.Client{Transport: &http.Transport{
		DialContext: l.network.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
	}}
	return witness.Start(ctx, witness.Options{
		Switch: l.network, Address: netip.MustParseAddr(IronicAddress), Name: l.machineWith,
		Ask:    func(ctx context.Context) (string, error) { return l.readConductor(ctx, httpClient) },
		Server: l.machineAt,
	})
}

// machineAt returns the name of the machine with an address of its own.
func (l *Lab) machineAt(address netip.Addr) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for name, machine := range l.machines {
		if network.Address4(machine.Port().Number) == address {
			return name
		}
	}
	return address.String()
}

// machineWith returns the name of the machine with a network card.
func (l *Lab) machineWith(card net.HardwareAddr) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for name, machine := range l.machines {
		if bytes.Equal(network.HardwareAddress(machine.Port().Number), card) {
			return name
		}
	}
	return card.String()
}

// readConductor reads the drivers, which name the conductor.
func (l *Lab) readConductor(ctx context.Context, httpClient *http.Client) (string, error) {
	settings := l.Ironic()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, settings.URL+"drivers", http.NoBody)
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(settings.Username, settings.Password)
	response, err := httpClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Drivers []struct {
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("reading the drivers of Ironic: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("reading the drivers of Ironic: %w", err)
	}
	if len(answer.Drivers) == 0 || len(answer.Drivers[0].Hosts) == 0 {
		return "", errors.New("reading the drivers of Ironic: no conductor")
	}
	return answer.Drivers[0].Hosts[0], nil
}
