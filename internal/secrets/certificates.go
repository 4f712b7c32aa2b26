package secrets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"time"
)

const (
	// validity of issued certificates in years. Users do not monitor the certificate of the Ironic of a control plane.
	validity = 10

	// clockSkew is the tolerated delay of the clock of a client.
	clockSkew = time.Hour

	// serialBytes is the length of a serial number. The maximum is 20.
	serialBytes = 16

	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"
)

// issuer signs certificates.
type issuer struct {
	certificate *x509.Certificate
	key         any
}

// certificates completes authority, certificate and key. Given is the data of the Secret that the user named, nil if
// the user named none.
func (k *Keeper) certificates(found, given content, wanted identity) (map[string][]byte, error) {
	if given.data != nil {
		if missing := missing(given.data, CertificateKey, KeyKey, AuthorityKey); missing != "" {
			return nil, problemf("Secret %s, which spec.ironic.tlsRef names, lacks %s: add it", given.name, missing)
		}
		data := pick(given.data, CertificateKey, KeyKey, AuthorityKey)
		return data, k.checkCertificates(data, wanted, "replace it in Secret "+given.name)
	}
	data := pick(found.data, AuthorityKey, AuthorityKeyKey, CertificateKey, KeyKey)
	switch {
	case len(data) == 0:
		if err := k.generateAuthority(data, wanted); err != nil {
			return nil, err
		}
		return data, k.issue(data, wanted, found.name)
	case missing(data, AuthorityKey, AuthorityKeyKey) == "" && present(data, CertificateKey, KeyKey) == "":
		return data, k.issue(data, wanted, found.name)
	case missing(data, AuthorityKey, CertificateKey, KeyKey) == "":
		return data, k.checkCertificates(data, wanted, renewal(found.name, data))
	default:
		return nil, problemf("Secret %s has %s but not %s: add the missing keys, or remove all of them to generate them",
			found.name, present(data, AuthorityKey, AuthorityKeyKey, CertificateKey, KeyKey),
			missing(data, AuthorityKey, AuthorityKeyKey, CertificateKey, KeyKey))
	}
}

// renewal is the remedy for a certificate of the Secret that is no longer valid.
func renewal(name string, data map[string][]byte) string {
	if len(data[AuthorityKeyKey]) > 0 {
		return fmt.Sprintf("remove %s and %s from Secret %s to have them issued again", CertificateKey, KeyKey, name)
	}
	return "replace it in Secret " + name
}

// beforeEnd is the remedy for a certificate that ends soon. Given is the Secret that spec.ironic.tlsRef names, empty if
// it names none, and own that of the cluster. A certificate must not end after its authority. The generated ones end at
// the same time.
//
//	tlsRef  key of the authority  authority         remedy
//	set     any                   any               replace the certificate in that Secret
//	empty   no                    any               replace it in the Secret of the cluster
//	empty   yes                   ends later        have the certificate issued again
//	empty   yes                   ends as early     have both issued again
func beforeEnd(given, own string, data map[string][]byte) string {
	if given != "" {
		return fmt.Sprintf("replace it in Secret %s, which spec.ironic.tlsRef names", given)
	}
	authority, authorityErr := tls.X509KeyPair(data[AuthorityKey], data[AuthorityKeyKey])
	pair, err := tls.X509KeyPair(data[CertificateKey], data[KeyKey])
	if authorityErr == nil && err == nil && !authority.Leaf.NotAfter.After(pair.Leaf.NotAfter) {
		return fmt.Sprintf("remove %s, %s, %s and %s from Secret %s to have them issued again, and let clients trust the "+
			"new %s and the old one", AuthorityKey, AuthorityKeyKey, CertificateKey, KeyKey, own, AuthorityKey)
	}
	return renewal(own, data)
}

func pick(data map[string][]byte, keys ...string) map[string][]byte {
	picked := map[string][]byte{}
	for _, key := range keys {
		if len(data[key]) > 0 {
			picked[key] = data[key]
		}
	}
	return picked
}

// checkCertificates returns an error for certificates that a client of the endpoint would refuse. The remedy ends the
// message.
func (k *Keeper) checkCertificates(data map[string][]byte, wanted identity, remedy string) error {
	pair, err := tls.X509KeyPair(data[CertificateKey], data[KeyKey])
	if err != nil {
		// The error is about the form of PEM blocks and never repeats them. It may name another type of key.
		return problemf("%s and %s do not belong together or are no PEM: %s", CertificateKey, KeyKey, remedy)
	}
	for _, address := range wanted.addresses {
		if pair.Leaf.VerifyHostname(address) != nil {
			return problemf("%s is not valid for %s: %s", CertificateKey, address, remedy)
		}
	}
	now := k.Clock.Now()
	switch {
	case now.After(pair.Leaf.NotAfter):
		return problemf("%s has expired: %s", CertificateKey, remedy)
	case now.Before(pair.Leaf.NotBefore):
		return problemf("%s is not valid yet: wait, or %s", CertificateKey, remedy)
	}
	return verify(data[AuthorityKey], pair, now, remedy)
}

// verify returns an error unless the authority has signed the certificate for a server.
func verify(authority []byte, pair tls.Certificate, now time.Time, remedy string) error {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return problemf("%s holds no certificate: %s", AuthorityKey, remedy)
	}
	for _, raw := range pair.Certificate[1:] {
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			return problemf("%s holds something that is no certificate: %s", CertificateKey, remedy)
		}
		between.AddCert(certificate)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
		return problemf("%s was not signed by %s for a server, or the authority has expired: %s", CertificateKey,
			AuthorityKey, remedy)
	}
	return nil
}

// generateAuthority adds an authority to the data.
func (k *Keeper) generateAuthority(data map[string][]byte, wanted identity) error {
	serial, err := serialNumber(k.Random)
	if err != nil {
		return err
	}
	now := k.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "metal3-ironic-ca-" + wanted.clusterID},
		NotBefore:    now.Add(-clockSkew), NotAfter: now.AddDate(validity, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	data[AuthorityKey], data[AuthorityKeyKey], err = sign(k.Random, template, nil)
	return err
}

// issue adds a certificate for the addresses to the data, signed by the authority in the data.
func (k *Keeper) issue(data map[string][]byte, wanted identity, name string) error {
	pair, err := tls.X509KeyPair(data[AuthorityKey], data[AuthorityKeyKey])
	if err != nil || !pair.Leaf.IsCA {
		return problemf("%s and %s of Secret %s do not belong together, or are no authority in PEM: replace them",
			AuthorityKey, AuthorityKeyKey, name)
	}
	serial, err := serialNumber(k.Random)
	if err != nil {
		return err
	}
	now := k.Clock.Now()
	if now.After(pair.Leaf.NotAfter) {
		return problemf("%s of Secret %s has expired: replace it", AuthorityKey, name)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "metal3-ironic-" + wanted.clusterID},
		NotBefore:    now.Add(-clockSkew), NotAfter: earlier(now.AddDate(validity, 0, 0), pair.Leaf.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		// Every request to a node uses one of these addresses, also that of a prober on the node.
		IPAddresses: wanted.parsed(),
	}
	data[CertificateKey], data[KeyKey], err = sign(k.Random, template, &issuer{pair.Leaf, pair.PrivateKey})
	return err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sign returns a new key and a certificate for it, both in PEM. Without an issuer, the certificate is self-signed.
func sign(random io.Reader, template *x509.Certificate, by *issuer) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	if by == nil {
		by = &issuer{template, private}
	}
	der, err := x509.CreateCertificate(random, template, by.certificate, private.Public(), by.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: encoded}), nil
}

func serialNumber(random io.Reader) (*big.Int, error) {
	raw := make([]byte, serialBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	// Zero is invalid.
	return new(big.Int).Add(new(big.Int).SetBytes(raw), big.NewInt(1)), nil
}

// identity is the subject of a certificate.
type identity struct {
	clusterID string

	// addresses are the VIPs.
	addresses []string
}

func (i identity) parsed() []net.IP {
	var list []net.IP
	for _, address := range i.addresses {
		list = append(list, net.ParseIP(address))
	}
	return list
}

func (i identity) check() error {
	for _, address := range i.addresses {
		if net.ParseIP(address) == nil {
			return problemf("spec.ironic.endpoint.virtualIPs has %q, which is no address: write it like 192.0.2.2", address)
		}
	}
	return nil
}
