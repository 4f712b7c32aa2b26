// Package host keeps a host of BMO paused while clusterctl move deletes it in the source, and pauses a host that is
// created without its status.
//
// clusterctl copies a host to the target first. Then it replaces all annotations of the host in the source with
// delete-for-move, deletes the host, and removes its finalizers. The pause is an annotation too. Without this webhook,
// BMO in the source would reconcile an unpaused host that is being deleted, and may deprovision and power off a machine
// of the target:
//
//	clusterctl: create in target   annotations = {delete-for-move}   delete            finalizers = []
//	source:     paused             paused, by this webhook           paused, deleting  gone
//	without it: paused             NOT paused                        NOT paused, deleting: BMO acts
//
// The webhook restores the pause in the write that removes it. It also pauses a host that was not paused: the host
// moves away, and BMO of the source must not change its machine.
//
// A host from a backup, such as the files of clusterctl move --to-directory, has an image and the finalizer of BMO,
// and no status. BMO would treat it as a new one, and provision it over the running system. The webhook pauses it at
// its creation; controllers/hostmove decides when it is resumed.
//
// A host that moved away must not be created again in the source, for example by a controller that applies manifests:
// BMO of the source would treat it as new, and inspect it, which reboots the machine.
//
// The webhook refuses and changes nothing else, so clusterctl can remove finalizers. It patches only annotations of the
// raw object, so that fields of newer BMOs are kept. A user can unpause a host with delete-for-move only after removing
// that annotation.
//
// The match conditions in config/webhook exclude all other writes. They cannot be generated, so these entries are
// written by hand.
package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	admissionv1 "k8s.io/api/admission/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Path and ArrivalPath are the paths of the webhooks, for updates and for creations.
const (
	Path        = "/mutate-metal3-io-v1alpha1-baremetalhost"
	ArrivalPath = "/mutate-metal3-io-v1alpha1-baremetalhost-arrival"
)

// SetupWithManager registers the webhooks with the webhook server of the manager.
func SetupWithManager(mgr ctrl.Manager) {
	server := mgr.GetWebhookServer()
	server.Register(Path, &admission.Webhook{Handler: admission.HandlerFunc(handle)})
	server.Register(ArrivalPath, &admission.Webhook{Handler: admission.HandlerFunc(receive)})
	server.Register(AgainPath, &admission.Webhook{Handler: again{mgr.GetAPIReader()}})
}

// handle handles an update of a host.
func handle(_ context.Context, request admission.Request) admission.Response {
	before, err := annotationsOf(request.OldObject.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the stored host %s: %w", request.Name, err))
	}
	after, err := annotationsOf(request.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the host %s: %w", request.Name, err))
	}
	value, lost := lostPause(before, after)
	if !lost {
		return admission.Allowed("")
	}
	add := func(annotation, value string) operation {
		return operation{Op: "add", Path: "/metadata/annotations/" + escaped.Replace(annotation), Value: value}
	}
	pause := []operation{add(bmov1alpha1.PausedAnnotation, value)}
	if value == infrav1.HostPausedByProvider {
		pause = append(pause, add(infrav1.PauseReasonAnnotation, pivot.PauseReason(pivot.Pause)))
	}
	return paused(request.Name, pause...)
}

// receive handles the creation of a host.
func receive(_ context.Context, request admission.Request) admission.Response {
	arriving := &bmov1alpha1.BareMetalHost{}
	if err := json.Unmarshal(request.Object.Raw, arriving); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the host %s: %w", request.Name, err))
	}
	// The API server always drops the status at a creation.
	arriving.Status = bmov1alpha1.BareMetalHostStatus{}
	if _, isPaused := arriving.Annotations[bmov1alpha1.PausedAnnotation]; isPaused || !pivot.LostStatus(arriving) {
		return admission.Allowed("")
	}
	annotations := maps.Clone(arriving.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	annotations[infrav1.PauseReasonAnnotation] = pivot.PauseReason(pivot.Await)
	return paused(request.Name, operation{Op: "add", Path: "/metadata/annotations", Value: annotations})
}

// paused admits a write with the operations that pause the host.
func paused(name string, pause ...operation) admission.Response {
	patch, err := json.Marshal(pause)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("pausing the host %s: %w", name, err))
	}
	response, kind := admission.Allowed(""), admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	return response
}

// lostPause returns the pause that an update removes and must not remove. Empty if there is none.
//
//	delete-for-move after  paused before  paused after  result
//	no                     any            any           nothing: not a move
//	yes                    any            yes           nothing: it is paused
//	yes                    value          no            that value: it identifies the owner of the pause
//	yes                    no             no            the pause of the provider
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
	Value any    `json:"value"`
}

// escaped returns a key as a part of a JSON pointer.
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
