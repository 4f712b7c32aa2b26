package outcome

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefused returns true for the answer of the API server to a request that a permission, an admission policy, a
// webhook or the schema refused. The status code of such an answer may be any, because a webhook chooses it.
func IsRefused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	const clientErrors, serverErrors = 400, 500
	code := answer.Status().Code
	return code >= clientErrors && code < serverErrors &&
		!apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsTimeout(err)
}
