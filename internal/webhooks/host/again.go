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

// AgainPath is the path of the webhook for the creation of a host that moved away.
const AgainPath = "/validate-metal3-io-v1alpha1-baremetalhost-again"

// again refuses to create hosts that moved to another management cluster.
//
// The webhook refuses the host instead of pausing it: the controller that applies the manifest shows the error, and a
// host that does not exist cannot be confused with a host that arrives later.
type again struct{ reader client.Reader }

// Handle handles the creation of a host.
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
