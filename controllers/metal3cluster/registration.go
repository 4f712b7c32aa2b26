package metal3cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// saveTime is the time in which BMO must save the ID of a node. BMO saves the ID in the reconcile that creates the
	// node, unless the write fails.
	saveTime = time.Minute

	// saveCheck is the time between two checks of a host that BMO must register again.
	saveCheck = 5 * time.Second
)

// lostRegistration is a node in Ironic whose ID BMO has not saved.
type lostRegistration struct {
	node  string
	since time.Time
}

// repairRegistrations makes BMO register hosts again whose registration it has lost. It returns the time until the next
// check. Zero means never.
func (r *Reconciler) repairRegistrations(ctx context.Context, s *scope) (time.Duration, error) {
	var (
		again    time.Duration
		problems []error
	)
	key, lost := client.ObjectKeyFromObject(s.infra), map[string]lostRegistration{}
	before, _ := r.lostRegistrations.Load(key)
	known, _ := before.(map[string]lostRegistration)
	for _, item := range s.registered() {
		node := s.nodeIDs[nameInIronic(item)]
		switch pivot.RegistrationOf(item, node) {
		case pivot.RegistrationLost:
			since := known[item.Name]
			if since.node != node {
				since = lostRegistration{node: node, since: r.Clock.Now()}
			}
			lost[item.Name] = since
			if wait := saveTime - r.Clock.Since(since.since); wait > 0 {
				again = flow.Soonest(again, wait)
				continue
			}
			problems = append(problems, r.registerAgain(ctx, item, node))
			again = flow.Soonest(again, saveCheck)
		case pivot.RegistrationRepeated:
			again = flow.Soonest(again, saveCheck)
		case pivot.RegistrationSaved:
			// BMO waits for up to 17 minutes after many failures. A change of the host makes BMO reconcile at once.
			problems = append(problems, r.annotate(ctx, item, hostKind(), item.Name, nil))
		case pivot.RegistrationKept:
		}
	}
	if len(lost) > 0 {
		r.lostRegistrations.Store(key, lost)
	} else {
		r.lostRegistrations.Delete(key)
	}
	return again, errors.Join(problems...)
}

// registered returns the hosts that BMO registers with the Ironic of the cluster: those of the cluster, and, if no
// other Ironic serves the namespace, those without a cluster.
func (s *scope) registered() []*bmov1alpha1.BareMetalHost {
	if !s.keepsIronic() || len(s.nodeIDs) == 0 {
		return nil
	}
	single := true
	for i := range s.around.Clusters {
		other := &s.around.Clusters[i]
		single = single && (other.Namespace != s.infra.Namespace || other.Spec.Ironic == nil ||
			other.Spec.Ironic.ClusterID == s.infra.Spec.Ironic.ClusterID)
	}
	var hosts []*bmov1alpha1.BareMetalHost
	for _, item := range s.move.Hosts {
		cluster := item.Labels[clusterv1.ClusterNameLabel]
		if cluster == s.cluster.Name || cluster == "" && single {
			hosts = append(hosts, item)
		}
	}
	return hosts
}

// registerAgain changes the Secret of the BMC of a host. BMO detects another version of the Secret, registers the host,
// and saves the ID of its node. registerAgain annotates the host last, so that a crash in between repeats both writes.
func (r *Reconciler) registerAgain(ctx context.Context, item *bmov1alpha1.BareMetalHost, node string) error {
	secret := item.Spec.BMC.CredentialsName
	if err := r.annotate(ctx, item, corev1.SchemeGroupVersion.WithKind("Secret"), secret, &node); err != nil {
		return err
	}
	if err := r.annotate(ctx, item, hostKind(), item.Name, &node); err != nil {
		return err
	}
	r.Recorder.Eventf(item, nil, corev1.EventTypeWarning, "RegistrationRepeated", "Register",
		"Ironic has node %s for the host, and BMO has node %s. Changed an annotation of Secret %s, so that BMO registers "+
			"the host again", node, item.Status.Provisioning.ID, secret)
	return nil
}

func hostKind() schema.GroupVersionKind { return bmov1alpha1.GroupVersion.WithKind("BareMetalHost") }

// annotate sets LostRegistrationAnnotation of a host, or of the Secret of its BMC. Nil removes it. An event on the host
// reports an error.
func (r *Reconciler) annotate(
	ctx context.Context, item *bmov1alpha1.BareMetalHost, kind schema.GroupVersionKind, name string, value *string,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{
		infrav1.LostRegistrationAnnotation: value,
	}}})
	if err != nil {
		return err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	object.Namespace, object.Name = item.Namespace, name
	err = r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		r.Recorder.Eventf(item, nil, corev1.EventTypeWarning, "RegistrationFailed", "Register",
			"Failed to annotate %s %s, so that BMO registers the host again: %v", kind.Kind, name, err)
		return fmt.Errorf("annotating %s %s/%s about a lost registration: %w", kind.Kind, item.Namespace, name, err)
	}
	return nil
}
