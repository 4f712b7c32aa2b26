package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// refreshedAnnotation on a BMCEventSubscription has the time of the last refresh. BMO reconciles a subscription
	// when its annotations change.
	refreshedAnnotation = "infrastructure.cluster.x-k8s.io/refreshed-at"

	// restartedAnnotation on the Pod template of a Deployment is that of kubectl rollout restart.
	restartedAnnotation = "kubectl.kubernetes.io/restartedAt"

	// lateFor is longer than BMO leaves an object of a host alone that it does not manage. An older object without a
	// status is one for which BMO writes none.
	lateFor = 15 * time.Minute
)

// refreshing is the command refresh.
type refreshing struct {
	recovery
	now func() time.Time
}

func setupRefresh(set *pflag.FlagSet) runner {
	c := &refreshing{now: time.Now}
	c.addSingle(set)
	return c.runner("PivotRefresh", c.openSource, c.refresh)
}

// stale are the objects that BMO reconciles late after a move.
type stale struct {
	// firmware are HostFirmwareSettings and HostFirmwareComponents without a status. BMO reconciles them when it starts.
	firmware []client.Object

	// subscriptions are BMCEventSubscriptions that the BMC does not have.
	subscriptions []*bmov1alpha1.BMCEventSubscription

	// operators are the Deployments of BMO to restart. If there are any, no subscription is annotated: BMO reconciles
	// all of them when it starts, and a subscription that a restart interrupts could be created twice.
	operators []operator
}

// refresh restarts BMO if firmware objects have no status. Otherwise it annotates BMCEventSubscriptions that the BMC
// does not have.
func (c *refreshing) refresh(ctx context.Context) error {
	var late stale
	confirmed, err := c.confirm(ctx, func() (intended intent, refusals []pivot.Obstacle, err error) {
		if late, refusals, err = c.judge(ctx); err != nil {
			return intent{}, nil, err
		}
		return late.intent(), refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	stamp := c.now().UTC().Format(time.RFC3339)
	annotated := late.subscriptions
	if len(late.operators) > 0 {
		annotated = nil
	}
	for _, subscription := range annotated {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, subscription.UID, refreshedAnnotation, stamp)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, subscription, patch) },
			"Had BMO reconcile BMCEventSubscription %s", subscription.Name)
		if err != nil {
			return err
		}
	}
	for _, each := range late.operators {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, each.UID,
			restartedAnnotation, stamp)
		err := c.act(func() error { return mergePatch(ctx, c.source.client, each.Deployment, patch) },
			"Restarted Deployment %s of BMO", each)
		if err != nil {
			return err
		}
	}
	c.done.Done = true
	return nil
}

// intent returns what the user confirms.
func (s stale) intent() (intended intent) {
	for _, object := range s.firmware {
		intended.objects = append(intended.objects, kindOf(object)+" "+object.GetName())
	}
	for _, object := range s.subscriptions {
		intended.objects = append(intended.objects, kindOf(object)+" "+object.Name)
	}
	intended.question = fmt.Sprintf("BMO reconciles %s.", pivot.Enumerate(intended.objects))
	for _, each := range s.operators {
		intended.objects = append(intended.objects, "Deployment "+each.String())
		intended.question += fmt.Sprintf(" Deployment %s restarts for this, and reconciles the hosts of all its namespaces.",
			each)
	}
	return intended
}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *bmov1alpha1.HostFirmwareSettings:
		return "HostFirmwareSettings"
	case *bmov1alpha1.HostFirmwareComponents:
		return "HostFirmwareComponents"
	default:
		return "BMCEventSubscription"
	}
}

// judge reads the objects of the namespace, and calls refreshable.
func (c *refreshing) judge(ctx context.Context) (stale, []pivot.Obstacle, error) {
	seen, err := c.source.look(ctx, c.where.namespace)
	if err != nil {
		return stale{}, nil, err
	}
	around := &scope{sight: seen}
	if err := c.source.readOperators(ctx, around); err != nil {
		return stale{}, nil, c.source.blind(err)
	}
	var settings bmov1alpha1.HostFirmwareSettingsList
	var components bmov1alpha1.HostFirmwareComponentsList
	var subscriptions bmov1alpha1.BMCEventSubscriptionList
	for _, list := range []client.ObjectList{&settings, &components, &subscriptions} {
		err := c.source.client.List(ctx, list, client.InNamespace(c.where.namespace))
		if err != nil && !lacksKind(err) {
			return stale{}, nil, c.source.blind(fmt.Errorf("listing %T: %w", list, err))
		}
	}
	late, refusals := refreshable(around, c.now(), settings.Items, components.Items, subscriptions.Items)
	return late, refusals, nil
}

// refreshable returns the objects that BMO reconciles late after a move, or why BMO does not reconcile them now. The
// first row that matches counts.
//
//	hosts                             object                                               result
//	one arrives, or has no status     any                                                  refused
//	paused, detached, unmanaged       any                                                  nothing to do
//	run                               firmware object without status, older than lateFor   nothing to do
//	run                               firmware object without status, and BMO runs         BMO is restarted
//	run                               firmware object without status, and BMO does not     refused
//	run                               BMCEventSubscription without status.subscriptionID   is annotated without a restart
func refreshable(
	around *scope, now time.Time, settings []bmov1alpha1.HostFirmwareSettings,
	components []bmov1alpha1.HostFirmwareComponents, subscriptions []bmov1alpha1.BMCEventSubscription,
) (late stale, refusals []pivot.Obstacle) {
	if refusals = arriving(around.sight); len(refusals) > 0 {
		return stale{}, refusals
	}
	add := func(object client.Object, updated *metav1.Time, conditions []metav1.Condition) {
		isLate := updated == nil && len(conditions) == 0 && now.Sub(object.GetCreationTimestamp().Time) < lateFor
		if isLate && around.manages(object.GetName()) {
			late.firmware = append(late.firmware, object)
		}
	}
	for i := range settings {
		add(&settings[i], settings[i].Status.LastUpdated, settings[i].Status.Conditions)
	}
	for i := range components {
		add(&components[i], components[i].Status.LastUpdated, components[i].Status.Conditions)
	}
	for i := range subscriptions {
		if subscriptions[i].Status.SubscriptionID == "" && around.manages(subscriptions[i].Spec.HostName) {
			late.subscriptions = append(late.subscriptions, &subscriptions[i])
		}
	}
	if len(late.firmware) > 0 {
		late.operators, refusals = around.restartable()
	}
	return late, refusals
}

// restartable returns the Deployments of BMO, or why they cannot be restarted.
func (s *scope) restartable() ([]operator, []pivot.Obstacle) {
	if len(s.operators) == 0 {
		return nil, []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeOperatorMissing, "restart BMO",
			"no Deployment that watches namespace %s has the label %s=%s", s.namespace, operatorLabel, operatorValue)}
	}
	return s.operators, s.deadOperators()
}

// arriving returns an obstacle for each host that is paused for the move, or whose status BMO has not restored yet.
func arriving(seen *sight) []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, host := range seen.hosts {
		about := pivot.About("BareMetalHost", host)
		if view := viewOf(host, seen.around); arrives(view) {
			found = append(found, about.Blocks(pivot.CodeHostPaused, "wait with pivot status --watch",
				"BareMetalHost %s is %s", host.Name, view.Phase))
		} else if seen.manages(host.Name) && host.Status.Provisioning.State == bmov1alpha1.StateNone {
			found = append(found, about.Blocks(pivot.CodeHostBusy, "wait until BMO has written it",
				"BareMetalHost %s has no status", host.Name))
		}
	}
	return found
}

// manages returns true for the name of a host that BMO manages.
func (s *sight) manages(name string) bool {
	return slices.ContainsFunc(s.hosts, func(host *bmov1alpha1.BareMetalHost) bool {
		_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		_, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]
		return host.Name == name && !paused && !detached &&
			host.Status.Provisioning.State != bmov1alpha1.StateUnmanaged
	})
}
