// Package movelabel keeps the labels that clusterctl move needs on the definitions of BMO and of its
// address manager.
//
// clusterctl moves only kinds whose definition is labelled. It labels what it installs itself; BMO is
// installed by other means, and its definitions carry no such label, so hosts would silently stay behind. So would
// pools of addresses that belong to no cluster, which need a label more. The labels have to be there before a move
// begins, in the source and, for a move back, in the target: the controller sets them wherever the provider runs, and
// sets them again when somebody applies the definitions anew.
//
// It refuses to touch any definition that is not in the table of pivot.MoveLabels, and never removes a label or changes
// a value. The trade-off is that a label that somebody takes off comes back; the flag --keep-move-labels=false is for
// those who mean it.
package movelabel

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// reasonLabelled is the reason of the event on a labelled definition.
const reasonLabelled = "LabelledForMove"

// Reconciler labels definitions.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
}

// Reading cannot be limited by name where a watch is needed.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=patch,resourceNames=baremetalhosts.metal3.io;bmceventsubscriptions.metal3.io;dataimages.metal3.io;firmwareschemas.metal3.io;hardwaredata.metal3.io;hostclaims.metal3.io;hostdeploypolicies.metal3.io;hostfirmwarecomponents.metal3.io;hostfirmwaresettings.metal3.io;hostupdatepolicies.metal3.io;ipaddresses.ipam.metal3.io;ipclaims.ipam.metal3.io;ippools.ipam.metal3.io;preprovisioningimages.metal3.io

// Reconcile labels one definition.
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
	if definition.Labels == nil {
		definition.Labels = map[string]string{}
	}
	for _, key := range keys {
		definition.Labels[key] = ""
	}
	if err := r.Client.Patch(ctx, definition, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(
			fmt.Errorf("labelling the definition %s for clusterctl move: %w", definition.Name, err))
	}
	r.Recorder.Eventf(definition, nil, corev1.EventTypeNormal, reasonLabelled, "Label",
		"Added %s, which clusterctl move needs", strings.Join(keys, ", "))
	return ctrl.Result{}, nil
}

// SetupWithManager registers the controller. Only metadata is watched: the manager has these in its cache already, and
// the schemas would take megabytes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("movelabel").
		For(&apiextensionsv1.CustomResourceDefinition{}, builder.OnlyMetadata,
			builder.WithPredicates(predicate.NewPredicateFuncs(lacksLabels))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the labels for clusterctl move: %w", err)
	}
	return nil
}

func lacksLabels(definition client.Object) bool {
	return len(pivot.MissingLabels(definition.GetName(), definition.GetLabels())) > 0
}
