package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
)

// AgainPath is where the API server asks whether a host that moved away is being created again.
const AgainPath = "/validate-metal3-io-v1alpha1-baremetalhost-again"

// again refuses to create hosts that moved to another management cluster.
//
// A refusal, and no pause: the controller that applies the manifest shows it to its user, and the host never exists, so
// it cannot be confused with a host that arrives later.
type again struct{ reader client.Reader }

// Handle answers the creation of a host.
func (a again) Handle(ctx context.Context, request admission.Request) admission.Response {
	created := &bmov1alpha1.BareMetalHost{}
	if err := json.Unmarshal(request.Object.Raw, created); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the host %s: %w", request.Name, err))
	}
	created.Namespace = request.Namespace
	left, err := departure.Of(ctx, a.reader, request.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("creating the host %s: %w", request.Name, err))
	}
	if refusal := left.HostRefusal(created); refusal != "" {
		return admission.Denied(refusal)
	}
	return admission.Allowed("")
}
