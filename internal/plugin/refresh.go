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

	// operators are the Deployments of BMO to restart.
	operators []operator
}

// refresh restarts BMO if firmware objects have no status, and annotates BMCEventSubscriptions that the BMC does not
// have.
func (c *refreshing) refresh(ctx context.Context) error {
	var late stale
	confirmed, err := c.confirm(func() (intended intent, refusals []pivot.Obstacle, err error) {
		if late, refusals, err = c.judge(ctx); err != nil {
			return intent{}, nil, err
		}
		return late.intent(), refusals, nil
	})
	if !confirmed || err != nil {
		return err
	}
	stamp := c.now().UTC().Format(time.RFC3339)
	for _, subscription := range late.subscriptions {
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
	if len(s.operators) > 0 {
		intended.question += " It restarts for this, and reconciles the hosts of all its namespaces."
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
	late, refusals := refreshable(around, settings.Items, components.Items, subscriptions.Items)
	return late, refusals, nil
}

// refreshable returns the objects that BMO reconciles late after a move, or why BMO does not reconcile them now. BMO
// reconciles neither firmware objects nor subscriptions of a paused or detached host.
//
//	hosts                    object                                                 result
//	one arrives              any                                                    refused
//	paused, detached, none   any                                                    nothing to do
//	runs                     BMCEventSubscription without status.subscriptionID     is annotated
//	runs                     firmware object without status, BMO runs               BMO is restarted
//	runs                     firmware object without status, BMO does not run       refused
func refreshable(
	around *scope, settings []bmov1alpha1.HostFirmwareSettings, components []bmov1alpha1.HostFirmwareComponents,
	subscriptions []bmov1alpha1.BMCEventSubscription,
) (late stale, refusals []pivot.Obstacle) {
	if refusals = arriving(around.sight); len(refusals) > 0 {
		return stale{}, refusals
	}
	for i := range settings {
		status := settings[i].Status
		if around.manages(settings[i].Name) && hasNoStatus(status.LastUpdated, status.Conditions) {
			late.firmware = append(late.firmware, &settings[i])
		}
	}
	for i := range components {
		status := components[i].Status
		if around.manages(components[i].Name) && hasNoStatus(status.LastUpdated, status.Conditions) {
			late.firmware = append(late.firmware, &components[i])
		}
	}
	for i := range subscriptions {
		if around.manages(subscriptions[i].Spec.HostName) && subscriptions[i].Status.SubscriptionID == "" {
			late.subscriptions = append(late.subscriptions, &subscriptions[i])
		}
	}
	if len(late.firmware) == 0 {
		return late, nil
	}
	late.operators = around.operators
	return late, around.operatorObstacles()
}

// arriving returns an obstacle for each host that is paused for the move.
func arriving(seen *sight) []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, host := range summarize([]*sight{seen}).Hosts {
		if arrives(host) {
			found = append(found, pivot.AboutNamed("BareMetalHost", host.Namespace, host.Name).Blocks(pivot.CodeHostPaused,
				"wait with pivot status --watch", "BareMetalHost %s is %s", host.Name, host.Phase))
		}
	}
	return found
}

// manages returns true for the name of a host that is neither paused nor detached.
func (s *sight) manages(name string) bool {
	return slices.ContainsFunc(s.hosts, func(host *bmov1alpha1.BareMetalHost) bool {
		_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		_, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]
		return host.Name == name && !paused && !detached
	})
}

// hasNoStatus returns true for the fields of a status that BMO has not written.
func hasNoStatus(updated *metav1.Time, conditions []metav1.Condition) bool {
	return updated == nil && len(conditions) == 0
}
