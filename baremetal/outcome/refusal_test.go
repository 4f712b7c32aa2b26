package outcome_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

func TestIsRefused(t *testing.T) {
	cause, hosts := errors.New("no"), schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"Permission":    {"a permission is missing", apierrors.NewForbidden(hosts, "host-0", cause), true},
		"Schema":        {"the spec is invalid", apierrors.NewInvalid(schema.GroupKind{}, "host-0", nil), true},
		"Webhook":       {"a webhook without a code denies with 400", apierrors.NewBadRequest("denied"), true},
		"Policy":        {"a policy chooses its reason", apierrors.NewUnauthorized("denied"), true},
		"Wrapped":       {"the cause counts", fmt.Errorf("writing: %w", apierrors.NewBadRequest("denied")), true},
		"Conflict":      {"another write was first", apierrors.NewConflict(hosts, "host-0", cause), false},
		"NotFound":      {"the host is deleted", apierrors.NewNotFound(hosts, "host-0"), false},
		"Busy":          {"a retry may succeed", apierrors.NewTooManyRequests("slow down", 1), false},
		"Timeout":       {"a retry may succeed", apierrors.NewTimeoutError("too slow", 1), false},
		"WebhookIsGone": {"a retry may succeed", apierrors.NewInternalError(cause), false},
		"NoAnswer":      {"no connection", cause, false},
		"None":          {"no error", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outcome.IsRefused(tc.err); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}
