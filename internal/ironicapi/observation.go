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
)

// Answer is the kind of an answer.
type Answer string

// Values of Answer.
const (
	// Answers means that an Ironic answered all requests.
	Answers Answer = "Answers"

	// Unreachable means that no node holds the VIP, or that Ironic of the VIP holder does not run yet.
	Unreachable Answer = "Unreachable"

	// Untrusted means that the certificate is of another authority, for another address, or out of its time.
	Untrusted Answer = "Untrusted"

	// Unauthorized means that the credentials were refused.
	Unauthorized Answer = "Unauthorized"

	// Broken means that the server does not answer like Ironic.
	Broken Answer = "Broken"

	// Unsupported means that the Ironic is too old.
	Unsupported Answer = "Unsupported"
)

// Observation is the result of one probe of an endpoint.
type Observation struct {
	// Answer is the kind of the answer. Except for Detail, the fields below are set only for Answers, and Version for
	// Unsupported too.
	Answer Answer

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
}

// failed converts an error to an observation.
func failed(err error) Observation {
	answer, detail := classify(err)
	return Observation{Answer: answer, Detail: detail}
}

func classify(err error) (Answer, string) {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		code      gophercloud.ErrUnexpectedResponseCode
		network   net.Error
	)
	switch {
	case errors.As(err, &authority):
		return Untrusted, "its certificate is signed by another authority"
	case errors.As(err, &hostname):
		return Untrusted, "its certificate is for another address"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return Untrusted, "its certificate is expired or not valid yet"
	case errors.As(err, &invalid):
		return Untrusted, "its certificate may not be used for this"
	case errors.As(err, &code):
		return fromCode(code.Actual)
	case errors.Is(err, errRedirected):
		return Broken, errRedirected.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unreachable, "the connection was refused: the VIP holder runs no Ironic"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return Unreachable, "no answer in time"
	case errors.As(err, &network):
		return Unreachable, "there is no connection"
	default:
		return Broken, problemOf(err)
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

func fromCode(code int) (Answer, string) {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return Unauthorized, "it refuses the credentials"
	case code == http.StatusServiceUnavailable, code == http.StatusBadGateway, code == http.StatusGatewayTimeout:
		return Unreachable, fmt.Sprintf("Ironic behind it does not answer (status %d)", code)
	default:
		return Broken, fmt.Sprintf("it answers with status %d", code)
	}
}
