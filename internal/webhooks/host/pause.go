// Package host keeps a host of the host operator paused while clusterctl move deletes it in the cluster that it leaves.
//
// clusterctl copies a host to the target first. Then it replaces all annotations of the copy that stays behind by
// delete-for-move, deletes it, and takes its finalizers away. The pause is an annotation too, so between the second and
// the third step a host operator that still runs sees an unpaused host that is to be deleted, and may deprovision and
// power off a machine that the target runs:
//
//	clusterctl: create in target   annotations = {delete-for-move}   delete            finalizers = []
//	source:     paused             paused, by this webhook           paused, deleting  gone
//	without it: paused             NOT paused                        NOT paused, deleting: the operator acts
//
// The webhook puts the pause back in the same write that would lose it. A host that was not paused is paused as well:
// it leaves for good, and nothing may be done to its machine from here.
//
// It refuses nothing and changes nothing else, so finalizers go as clusterctl wants it. It works on the annotations of
// the raw object and answers with one operation, so that fields of newer host operators are not lost. The trade-off is
// that nobody can unpause a host that carries delete-for-move without taking that off first.
//
// The webhook is called for no other write: the match conditions in config/webhook see to that. They cannot be
// generated, so the whole entry is written there by hand.
package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Path is where the API server calls the webhook.
const Path = "/mutate-metal3-io-v1alpha1-baremetalhost"

// SetupWithManager registers the webhook with the webhook server of the manager.
func SetupWithManager(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(Path, &admission.Webhook{Handler: admission.HandlerFunc(handle)})
}

// handle answers an update of a host.
func handle(_ context.Context, request admission.Request) admission.Response {
	before, err := annotationsOf(request.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the stored host %s: %w", request.Name, err))
	}
	after, err := annotationsOf(request.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the host %s: %w", request.Name, err))
	}
	response := admission.Allowed("")
	value, lost := lostPause(before, after)
	if !lost {
		return response
	}
	response.Patch, err = json.Marshal([]operation{{
		Op: "add", Path: "/metadata/annotations/" + escaped.Replace(bmov1alpha1.PausedAnnotation), Value: value,
	}})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("pausing the host %s: %w", request.Name, err))
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.PatchType = &kind
	return response
}

// lostPause returns the pause that a host must not lose in the step from one set of annotations to the next, if it
// does.
//
//	delete-for-move after  paused before  paused after  result
//	no                     any            any           nothing: not a move
//	yes                    any            yes           nothing: it is paused
//	yes                    value          no            that value: whose pause it is stays known
//	yes                    no             no            the provider's own
func lostPause(before, after map[string]string) (value string, lost bool) {
	if _, moves := after[infrav1.DeleteForMoveAnnotation]; !moves {
		return "", false
	}
	if _, paused := after[bmov1alpha1.PausedAnnotation]; paused {
		return "", false
	}
	if value, paused := before[bmov1alpha1.PausedAnnotation]; paused {
		return value, true
	}
	return infrav1.HostPausedByProvider, true
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// escaped writes a key as a part of a JSON pointer.
var escaped = strings.NewReplacer("~", "~0", "/", "~1")

func annotationsOf(raw []byte) (map[string]string, error) {
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	return object.Metadata.Annotations, nil
}
