package plugin

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// operatorLabel and operatorValue are what the release of the Baremetal Operator (BMO) labels its Deployment with.
	operatorLabel, operatorValue = "webhook", "metal3-io-v1alpha1-baremetalhost"
)

func (c *cluster) readOperators(ctx context.Context, s *scope) error {
	var list appsv1.DeploymentList
	if err := c.client.List(ctx, &list, client.MatchingLabels{operatorLabel: operatorValue}); err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	s.operators = list.Items
	return nil
}

// operatorObstacles say which Deployment of BMO has no available replica. Without BMO the hosts are unmanaged.
func (s *scope) operatorObstacles() []pivot.Obstacle {
	var found []pivot.Obstacle
	for i := range s.operators {
		deployment := &s.operators[i]
		if deployment.Status.AvailableReplicas == 0 {
			found = append(found, pivot.About("Deployment", deployment).Blocks(pivot.CodeOperatorDown,
				"scale it, or look at its pods", "BMO does not run: Deployment %s has 0 of %d replicas available",
				client.ObjectKeyFromObject(deployment), replicas(deployment)))
		}
	}
	return found
}

// condition is one line about what the target brings for the hosts that arrive: BMO, its kinds, the Ironic endpoint.
func (a arrival) condition() string {
	names := make([]string, 0, len(a.operators))
	for i := range a.operators {
		names = append(names, fmt.Sprintf("%s (%s available)", client.ObjectKeyFromObject(&a.operators[i]),
			number(int(a.operators[i].Status.AvailableReplicas), "replica")))
	}
	operator := "no Deployment has the label " + operatorLabel + "=" + operatorValue + ", see whether BMO runs"
	if len(names) > 0 {
		operator = strings.Join(names, ", ")
	}
	wanted, there, exists := 0, 0, map[string]bool{}
	for _, known := range a.definitions {
		exists[known.Name] = true
	}
	for _, definition := range a.from.definitions {
		if definition.ours() {
			wanted++
			if exists[definition.Name] {
				there++
			}
		}
	}
	return fmt.Sprintf("target: BMO: %s; CustomResourceDefinitions: %d of %d; Ironic endpoint: %s",
		operator, there, wanted, a.endpoints())
}

// endpoints say what the target knows of the Ironic endpoints that arrive. It probes an endpoint once its Metal3Cluster
// is there.
func (a arrival) endpoints() string {
	var addresses []string
	for _, infra := range a.from.infras {
		if ironic := infra.Spec.Ironic; ironic != nil && len(ironic.Endpoint.VirtualIPs) > 0 {
			port := ironic.Endpoint.Port
			if port == 0 {
				port = infrav1.DefaultIronicPort
			}
			addresses = append(addresses, fmt.Sprintf("https://%s:%d is probed after the move",
				ironic.Endpoint.VirtualIPs[0], port))
		}
	}
	if len(addresses) == 0 {
		return "none"
	}
	return strings.Join(addresses, ", ")
}
