package issuer

import (
	"crypto/x509"
	"fmt"
)

// usages are the usages of a key.
type usages struct {
	key      x509.KeyUsage
	extended []x509.ExtKeyUsage
}

// keyUsages returns the usages in the spec. The default is a server that is also a client, and an authority for all
// usages.
func (s certificateSpec) keyUsages() (usages, error) {
	var wanted usages
	for _, name := range s.Usages {
		switch name {
		case "digital signature", "signing":
			wanted.key |= x509.KeyUsageDigitalSignature
		case "key encipherment":
			wanted.key |= x509.KeyUsageKeyEncipherment
		case "server auth":
			wanted.extended = append(wanted.extended, x509.ExtKeyUsageServerAuth)
		case "client auth":
			wanted.extended = append(wanted.extended, x509.ExtKeyUsageClientAuth)
		default:
			return usages{}, fmt.Errorf("spec.usages holds %q: use digital signature, key encipherment, server auth or "+
				"client auth", name)
		}
	}
	if len(s.Usages) == 0 {
		wanted.key = x509.KeyUsageDigitalSignature
		if !s.IsCA {
			wanted.extended = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		}
	}
	if s.IsCA {
		wanted.key |= x509.KeyUsageCertSign
	}
	return wanted, nil
}
