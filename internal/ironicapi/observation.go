package ironicapi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Observation is the result of one probe of an endpoint.
type Observation struct {
	// Answer is the kind of the answer. Except for Detail, the fields below are set only for Answers, and Version for
	// Unsupported too.
	Answer pivot.Answer

	// Detail is the error for users. It contains no time, no counter and no secret.
	Detail string

	// Version is the newest API version of the Ironic, such as "1.96".
	Version string

	// Conductors are the names of the live conductors, sorted. None means that the Ironic has just started.
	Conductors []string

	// Terms are the times at which conductors registered with their database, by name, in RFC 3339 and UTC. Empty if the
	// Ironic does not report them.
	Terms map[string]string

	// Nodes are the provision states of the nodes in Ironic, by their names, and IDs their UUIDs.
	Nodes, IDs map[string]string

	// Certificate is the validity of the certificate that the endpoint serves.
	Certificate Validity
}

// Validity is the time in which a certificate is valid. The zero value means unknown.
type Validity struct {
	NotBefore, NotAfter metav1.Time
}

// ValidityOf returns the validity of a certificate.
func ValidityOf(certificate *x509.Certificate) Validity {
	return Validity{NotBefore: metav1.Time{Time: certificate.NotBefore}, NotAfter: metav1.Time{Time: certificate.NotAfter}}
}

// failed converts an error to an observation.
func failed(err error) Observation {
	answer, detail := classify(err)
	return Observation{Answer: answer, Detail: detail}
}

func classify(err error) (pivot.Answer, string) {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		code      gophercloud.ErrUnexpectedResponseCode
		network   net.Error
	)
	switch {
	case errors.As(err, &authority):
		return pivot.Untrusted, "its certificate is signed by another authority"
	case errors.As(err, &hostname):
		return pivot.Untrusted, "its certificate is for another address"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return pivot.Untrusted, "its certificate is expired or not valid yet"
	case errors.As(err, &invalid):
		return pivot.Untrusted, "its certificate may not be used for this"
	case errors.As(err, &code):
		return fromCode(code.Actual)
	case errors.Is(err, errRedirected):
		return pivot.Broken, errRedirected.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return pivot.Unreachable, "the connection was refused: the VIP holder runs no Ironic"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return pivot.Unreachable, "no answer in time"
	case errors.As(err, &network):
		return pivot.Unreachable, "there is no connection"
	default:
		return pivot.Broken, problemOf(err)
	}
}

// problemOf returns what is wrong with an answer.
func problemOf(err error) string {
	var large *http.MaxBytesError
	switch {
	case errors.Is(err, errTooMany):
		return errTooMany.Error()
	case errors.As(err, &large):
		return fmt.Sprintf("an answer has more than %d bytes, the limit", large.Limit)
	default:
		return "the response is not that of Ironic"
	}
}

func fromCode(code int) (pivot.Answer, string) {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return pivot.Unauthorized, "it refuses the credentials"
	case code == http.StatusServiceUnavailable, code == http.StatusBadGateway, code == http.StatusGatewayTimeout:
		return pivot.Unreachable, fmt.Sprintf("Ironic behind it does not answer (status %d)", code)
	default:
		return pivot.Broken, fmt.Sprintf("it answers with status %d", code)
	}
}
