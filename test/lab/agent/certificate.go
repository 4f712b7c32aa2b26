package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// certificate is the certificate of an agent for Ironic: self-signed, for its address.
type certificate struct {
	authority []byte
	pair      tls.Certificate
}

// lifetime of a certificate, longer than that of any agent.
const lifetime = 30 * 24 * time.Hour

func newCertificate(address netip.Addr, now time.Time) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: address.String()},
		IPAddresses: []net.IP{address.AsSlice()}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return certificate{}, fmt.Errorf("making a certificate: %w", err)
	}
	return certificate{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}),
		pair:      tls.Certificate{Certificate: [][]byte{content}, PrivateKey: key},
	}, nil
}

func (c certificate) serving() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.pair}}
}
