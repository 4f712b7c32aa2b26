package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
)

// Failure is why Ironic is not healthy.
type Failure struct {
	// Reason is one word of a small set, for metrics.
	Reason string

	// Cause is the error.
	Cause error

	// Part is what failed.
	Part Part
}

// Part is a part of a node that can fail a check.
type Part int

// Parts of a node.
const (
	// Node stands for the network, and for an Ironic that answers, but too slowly for clients of its web server.
	Node Part = iota

	// Ironic is Ironic itself, past its web server.
	Ironic

	// WebServer is the web server alone: Ironic has answered fast, and the certificate and the images are in order.
	WebServer

	// Files stands for the certificate and the images. The web server has answered.
	Files
)

// Error implements error.
func (f *Failure) Error() string {
	return f.Cause.Error()
}

// PartOf returns the part that failed a check.
func PartOf(err error) Part {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Part
	}
	return Node
}

// ReasonOf returns the reason of a failure, and an empty string for nil.
func ReasonOf(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return ""
}

// Reasons of the web server and of Ironic. Those of images begin with "Image".
const (
	// slow is the reason of a check that timed out.
	slow = "Slow"

	refused   = "Refused"
	broken    = "Broken"
	apiStatus = "APIStatus"
)

// behind returns the part that failed a request to the web server.
func behind(err error) Part {
	switch strings.TrimPrefix(ReasonOf(err), "Image") {
	case slow, refused, broken, apiStatus:
		return WebServer
	default:
		return Files
	}
}

// IsSlow returns true if a check failed only because it timed out.
func IsSlow(err error) bool {
	return strings.HasSuffix(ReasonOf(err), slow)
}

// reasonOf returns the reason of an error of the connection.
func reasonOf(err error) string {
	var invalid x509.CertificateInvalidError
	var untrusted *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "CertificateExpired"
	case errors.As(err, &untrusted):
		return "CertificateWrong"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return slow
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return refused
	default:
		return broken
	}
}
