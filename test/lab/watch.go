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

// WatchIronic observes which machine holds the VIP of Ironic, which Ironic answers and which machine serves DHCP, until
// the witness is stopped. Machines have their names, and so have conductors.
func (l *Lab) WatchIronic(ctx context.Context) (*witness.Witness, error) {
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(l.Ironic().Authority) {
		return nil, errors.New("watching Ironic: its authority is no certificate")
	}
	// Each request is one of a new client without connections.
	asking := &http.Client{Transport: &http.Transport{
		DialContext: l.network.Dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
	}}
	return witness.Start(ctx, witness.Options{
		Switch: l.network, Address: netip.MustParseAddr(IronicAddress), Name: l.machineWith,
		Ask:    func(ctx context.Context) (string, error) { return l.askIronic(ctx, asking) },
		Server: l.machineAt,
	})
}

// machineAt is the name of the machine that has an address of its own.
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

// machineWith is the name of the machine that has a network card.
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

// askIronic asks for the drivers, which says who the conductor is.
func (l *Lab) askIronic(ctx context.Context, asking *http.Client) (string, error) {
	settings := l.Ironic()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, settings.URL+"drivers", http.NoBody)
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(settings.Username, settings.Password)
	response, err := asking.Do(request)
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
		return "", fmt.Errorf("asking Ironic for its drivers: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("reading the drivers of Ironic: %w", err)
	}
	if len(answer.Drivers) == 0 || len(answer.Drivers[0].Hosts) == 0 {
		return "", errors.New("asking Ironic for its drivers: it has no conductor")
	}
	return answer.Drivers[0].Hosts[0], nil
}
