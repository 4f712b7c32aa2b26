package build

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"time"
)

// SilentKubeconfig is a valid kubeconfig for an API server that does not answer.
const SilentKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: silent, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: silent, context: {cluster: silent, user: silent}}]
users: [{name: silent, user: {token: credential}}]
current-context: silent
`

// CertificateKubeconfig returns SilentKubeconfig with a client certificate that is valid until a time.
func CertificateKubeconfig(until time.Time) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.AddDate(-1, 0, 0), NotAfter: until}
	signed, failed := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	private, err := x509.MarshalECPrivateKey(key)
	encode := func(kind string, content []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	user := "client-certificate-data: " + encode("CERTIFICATE", signed) +
		", client-key-data: " + encode("EC PRIVATE KEY", private)
	return strings.Replace(SilentKubeconfig, "token: credential", user, 1), errors.Join(failed, err)
}
