package issuer

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// serialBits is the size of a random serial number.
const serialBits = 120

// authority signs certificates. A nil authority means self-signed certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// pair is the content of the Secret of a Certificate, in PEM format.
type pair struct {
	certificate, key, authority []byte
}

// readAuthority reads the Secret of a CA issuer.
func readAuthority(secret *corev1.Secret) (*authority, error) {
	loaded, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the key pair in Secret %s: %w", secret.Name, err)
	}
	if !loaded.Leaf.IsCA {
		return nil, fmt.Errorf("the certificate in Secret %s is not of a CA: use one with isCA", secret.Name)
	}
	signer, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in Secret %s cannot sign", secret.Name)
	}
	return &authority{certificate: loaded.Leaf, key: signer}, nil
}

// issue returns a certificate, and a new key unless the spec keeps the key of the Secret. Present is nil if the Secret
// does not exist.
func issue(spec certificateSpec, present *corev1.Secret, by *authority, now time.Time) (pair, error) {
	template, err := newTemplate(spec, now)
	if err != nil {
		return pair{}, err
	}
	key := keptKey(spec, present)
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return pair{}, fmt.Errorf("making a key: %w", err)
		}
	}
	encodedKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encoding a key: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("signing a certificate: %w", err)
	}
	made := pair{certificate: encode("CERTIFICATE", signed), key: encode("EC PRIVATE KEY", encodedKey)}
	made.authority = made.certificate
	if by != nil {
		made.authority = encode("CERTIFICATE", by.certificate.Raw)
	}
	return made, nil
}

// keptKey returns the key that a certificate keeps, or nil.
func keptKey(spec certificateSpec, present *corev1.Secret) *ecdsa.PrivateKey {
	if spec.PrivateKey.RotationPolicy != keepKey || present == nil {
		return nil
	}
	loaded, err := tls.X509KeyPair(present.Data[corev1.TLSCertKey], present.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil
	}
	key, isECDSA := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !isECDSA || key.Curve != elliptic.P256() {
		return nil
	}
	return key
}

func newTemplate(spec certificateSpec, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	usages, err := spec.keyUsages()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: spec.CommonName, Organization: spec.Subject.Organizations},
		DNSNames:     spec.DNSNames,
		NotBefore:    now,
		NotAfter:     now.Add(spec.duration()),
		KeyUsage:     usages.key,
		ExtKeyUsage:  usages.extended,
		IsCA:         spec.IsCA, BasicConstraintsValid: true,
	}
	for _, text := range spec.IPAddresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(text))
	}
	return template, nil
}

func encode(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}

// inspect returns an error if the Secret does not match the spec. Otherwise the certificate must be renewed at renewAt.
func inspect(spec certificateSpec, secret *corev1.Secret, by *authority, now time.Time) (
	certificate *x509.Certificate, renewAt time.Time, err error,
) {
	if secret == nil {
		return nil, renewAt, errors.New("the Secret does not exist yet")
	}
	loaded, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, renewAt, fmt.Errorf("the Secret has no key pair: %w", err)
	}
	if !says(loaded.Leaf, spec) {
		return nil, renewAt, errors.New("the certificate does not match the spec")
	}
	signer, signedBy := loaded.Leaf, secret.Data[corev1.TLSCertKey]
	if by != nil {
		signer, signedBy = by.certificate, encode("CERTIFICATE", by.certificate.Raw)
	}
	// CheckSignatureFrom would refuse a self-signed certificate that is not of a CA.
	checked := signer.CheckSignature(loaded.Leaf.SignatureAlgorithm, loaded.Leaf.RawTBSCertificate, loaded.Leaf.Signature)
	if checked != nil || !bytes.Equal(secret.Data[authorityKey], signedBy) {
		return nil, renewAt, errors.New("the certificate was signed by another authority")
	}
	renewAt = loaded.Leaf.NotAfter.Add(-spec.renewBefore())
	if !now.Before(renewAt) {
		return nil, renewAt, errors.New("the certificate is to be renewed")
	}
	return loaded.Leaf, renewAt, nil
}

// says returns true if a certificate matches its spec.
func says(certificate *x509.Certificate, spec certificateSpec) bool {
	addresses := make([]string, len(certificate.IPAddresses))
	for i, address := range certificate.IPAddresses {
		addresses[i] = address.String()
	}
	wanted := make([]string, len(spec.IPAddresses))
	for i, text := range spec.IPAddresses {
		wanted[i] = net.ParseIP(text).String()
	}
	usages, err := spec.keyUsages()
	return err == nil && certificate.KeyUsage == usages.key &&
		slices.Equal(certificate.ExtKeyUsage, usages.extended) &&
		certificate.Subject.CommonName == spec.CommonName &&
		slices.Equal(certificate.Subject.Organization, spec.Subject.Organizations) &&
		slices.Equal(certificate.DNSNames, spec.DNSNames) &&
		slices.Equal(addresses, wanted) &&
		certificate.IsCA == spec.IsCA &&
		certificate.NotAfter.Sub(certificate.NotBefore) == spec.duration().Truncate(time.Second)
}
