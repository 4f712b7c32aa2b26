package flow_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestALongRefusalBecomesAnEvent lets a webhook refuse a write with a text that is too long for an event.
func TestALongRefusalBecomesAnEvent(t *testing.T) {
	const format = "The API server refuses to change the host: %v"
	for name, tc := range map[string]struct {
		cause string
		cut   bool
	}{
		"Short":      {"100% refused", false},
		"Long":       {strings.Repeat("spec.bmc is wrong; ", 200), true},
		"Characters": {strings.Repeat("語", 1000), true},
	} {
		t.Run(name, func(t *testing.T) {
			refused := apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, "host", errors.New(tc.cause))
			recorded := &recorder{}
			flow.NewRecorder(recorded).Eventf(build.Host("host"), nil, corev1.EventTypeWarning, "WriteRefused", "Move", format, refused)
			whole := strings.Replace(format, "%v", refused.Error(), 1)
			got, found := strings.CutPrefix(strings.Join(recorded.lines, "\n"), "Warning|WriteRefused|Move|")
			if !found || len(got) > 1024 || !utf8.ValidString(got) || !strings.HasPrefix(whole, got) {
				t.Errorf("got %d bytes, which the API server rejects: %q", len(got), got)
			}
			if (got != whole) != tc.cut {
				t.Errorf("got %q", got)
			}
		})
	}
}
