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
}

// Error implements error.
func (f *Failure) Error() string {
	return f.Cause.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error {
	return f.Cause
}

// ironicError is a failure of Ironic itself, and not of its web server.
type ironicError struct{ error }

// Unwrap returns the failure.
func (f ironicError) Unwrap() error {
	return f.error
}

// IsOfIronic returns true if Ironic itself failed a check.
func IsOfIronic(err error) bool {
	var of ironicError
	return errors.As(err, &of)
}

// ReasonOf returns the reason of a failure, "Unknown" for another error, and an empty string for nil.
func ReasonOf(err error) string {
	var failure *Failure
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failure):
		return failure.Reason
	default:
		return "Unknown"
	}
}

// slow is the reason of a check that timed out.
const slow = "Slow"

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
		return "Refused"
	default:
		return "Broken"
	}
}
