package health

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
)

// trust follows the file with the authorities of the certificate of the web server:
//
//	file                          trusted
//	never read                    nothing
//	changes                       its new content, and what was trusted before
//	the web server shows a        its content alone
//	  certificate of its content
//	cannot be read                as before
//
// The file and the certificate of the web server do not change at the same moment. Without the previous authorities,
// such a change would end the database of Ironic. The zero value is ready to use.
type trust struct {
	content []byte

	// now are the authorities of the file, and before the previous ones that still count.
	now, before []*x509.Certificate
}

// follow reads the file. After an error the trusted authorities stay.
func (t *trust) follow(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the certificate authority of Ironic: %w", err)
	}
	if len(t.now) > 0 && bytes.Equal(content, t.content) {
		return nil
	}
	found := certificates(content)
	if len(found) == 0 {
		return fmt.Errorf("reading the certificate authority of Ironic: %s holds no certificate in PEM form", path)
	}
	t.content, t.before, t.now = content, append(t.before, t.now...), found
	return nil
}

// certificates returns the valid certificates of a PEM file.
func certificates(content []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, certificate)
		}
	}
	return found
}

// pool returns all trusted authorities.
func (t *trust) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, one := range slices.Concat(t.now, t.before) {
		pool.AddCert(one)
	}
	return pool
}

// shown records a connection to the web server.
func (t *trust) shown(connection *tls.ConnectionState) {
	if len(t.before) == 0 {
		return
	}
	for _, chain := range connection.VerifiedChains {
		if root := chain[len(chain)-1]; slices.ContainsFunc(t.now, root.Equal) {
			t.before = nil
			return
		}
	}
}
