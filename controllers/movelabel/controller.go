// Package movelabel sets the labels that clusterctl move requires on the CRDs of BMO and of its address manager.
//
// clusterctl moves only kinds with a label on their CRD. It labels the CRDs that it installs. Other tools install BMO,
// so its CRDs have no label, and a move would omit all hosts. IPPools without a cluster require another label. The
// labels must exist before a move, in the source cluster and, for a move back, in the target cluster. So the controller
// sets them wherever the provider runs, and again after another client applies the CRDs.
//
// It labels only the CRDs in pivot.MoveLabels, and never removes a label or changes a value. It restores a label that a
// user removes, unless the flag --keep-move-labels=false disables it.
package movelabel

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Reasons of the events on a CRD.
const (
	reasonLabelled = "LabelledForMove"
	reasonFailed   = "LabelFailed"
)

// Reconciler labels CRDs.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
}

// A watch requires the permission to read all CRDs.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=patch,resourceNames=baremetalhosts.metal3.io;baremetalswitches.metal3.io;bmceventsubscriptions.metal3.io;dataimages.metal3.io;firmwareschemas.metal3.io;hardwaredata.metal3.io;hostclaims.metal3.io;hostdeploypolicies.metal3.io;hostfirmwarecomponents.metal3.io;hostfirmwaresettings.metal3.io;hostnetworkattachments.metal3.io;hostupdatepolicies.metal3.io;ipaddresses.ipam.metal3.io;ipclaims.ipam.metal3.io;ippools.ipam.metal3.io;preprovisioningimages.metal3.io

// Reconcile labels one CRD.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := r.Client.Get(ctx, req.NamespacedName, definition); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	keys := pivot.MissingLabels(definition.Name, definition.Labels)
	if len(keys) == 0 {
		return ctrl.Result{}, nil
	}
	before := definition.DeepCopy()
	for _, key := range keys {
		metav1.SetMetaDataLabel(&definition.ObjectMeta, key, "")
	}
	switch err := r.Client.Patch(ctx, definition, client.MergeFrom(before)); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil:
		r.Recorder.Eventf(before, nil, corev1.EventTypeWarning, reasonFailed, "Label", "Failed to add label %s, so "+
			"clusterctl move fails or leaves objects of the kind behind: %v", strings.Join(keys, ", "), err)
		return ctrl.Result{}, fmt.Errorf("labelling CustomResourceDefinition %s for clusterctl move: %w", before.Name, err)
	}
	r.Recorder.Eventf(definition, nil, corev1.EventTypeNormal, reasonLabelled, "Label",
		"Added label %s for clusterctl move", strings.Join(keys, ", "))
	return ctrl.Result{}, nil
}

// SetupWithManager registers the controller. It watches only metadata, because the schemas take megabytes of memory.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("movelabel").
		For(&apiextensionsv1.CustomResourceDefinition{}, builder.OnlyMetadata,
			builder.WithPredicates(predicate.NewPredicateFuncs(lacksLabels))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the movelabel controller: %w", err)
	}
	return nil
}

func lacksLabels(definition client.Object) bool {
	return len(pivot.MissingLabels(definition.GetName(), definition.GetLabels())) > 0
}
