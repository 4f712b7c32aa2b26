package controlplane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// check returns an error for material with which Ironic or the guard would fail. Its messages contain no material.
func (e Endpoint) check(addresses []vip.Address) error {
	return errors.Join(e.Credentials.check(), e.Certificates.check(addresses))
}

func (c Credentials) check() error {
	switch {
	case len(c.Username) == 0 || bytes.ContainsAny(c.Username, ":\r\n"):
		return errors.New("username is empty, or has a colon or a line end; use letters and digits")
	case len(c.Password) == 0 || bytes.ContainsAny(c.Password, "\r\n"):
		return errors.New("password is empty or has a line end; use one line")
	}
	user := fmt.Appendf(nil, "%s:$2", c.Username)
	for line := range bytes.Lines(c.Htpasswd) {
		if bytes.HasPrefix(line, user) {
			return nil
		}
	}
	return fmt.Errorf("htpasswd has no bcrypt hash for user %q; create it from username and password", c.Username)
}

func (c Certificates) check(addresses []vip.Address) error {
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		return fmt.Errorf("reading tls.crt and tls.key: %w", err)
	}
	for _, address := range addresses {
		if err := pair.Leaf.VerifyHostname(address.Address.String()); err != nil {
			return fmt.Errorf("tls.crt is not valid for %s; issue it for all VIPs: %w", address.Address, err)
		}
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.Authority) {
		return errors.New("ca.crt contains no certificate; set the CA that signed tls.crt")
	}
	for _, raw := range pair.Certificate[1:] {
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			return fmt.Errorf("reading tls.crt: %w", err)
		}
		intermediates.AddCert(certificate)
	}
	// The function has no clock: the guard checks whether the certificate has expired. It verifies the certificate at
	// its first and its last moment, of which one is sufficient, because an authority may be older or younger than its
	// certificate.
	options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: pair.Leaf.NotBefore}
	if _, err = pair.Leaf.Verify(options); err != nil {
		options.CurrentTime = pair.Leaf.NotAfter
		_, err = pair.Leaf.Verify(options)
	}
	if err != nil {
		return fmt.Errorf("tls.crt was not signed by ca.crt for a server; set ca.crt to the CA that signed it: %w", err)
	}
	return nil
}
