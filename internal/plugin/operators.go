package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

const (
	// operatorLabel and operatorValue are the label of the Deployment in a release of the Baremetal Operator (BMO).
	operatorLabel, operatorValue = "webhook", "metal3-io-v1alpha1-baremetalhost"
)

// operator is a Deployment of BMO.
type operator struct {
	*appsv1.Deployment

	// uses is its Ironic.
	uses ironicUse
}

func (o operator) String() string { return client.ObjectKeyFromObject(o.Deployment).String() }

// readOperators reads the Deployments of BMO that manage the hosts of the namespace, and the Metal3Clusters whose
// Ironic they may use.
func (c *cluster) readOperators(ctx context.Context, s *scope) error {
	var list appsv1.DeploymentList
	if err := c.client.List(ctx, &list, client.MatchingLabels{operatorLabel: operatorValue}); err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	for i := range list.Items {
		deployment := &list.Items[i]
		read, err := c.readSettings(ctx, deployment)
		if err != nil {
			return err
		}
		if read.watches(deployment, s.namespace) {
			s.operators = append(s.operators, operator{deployment, read.ironicOf(deployment)})
		}
	}
	var infras infrav1.Metal3ClusterList
	if err := c.client.List(ctx, &infras); c.missing(err) != nil {
		return fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	for i := range infras.Items {
		s.everywhere = append(s.everywhere, &infras.Items[i])
	}
	return nil
}

// readSettings reads the ConfigMaps of a Deployment.
func (c *cluster) readSettings(ctx context.Context, deployment *appsv1.Deployment) (settings, error) {
	read := settings{
		namespace: deployment.Namespace, maps: map[string]map[string]string{}, unreadable: map[string]bool{},
	}
	for _, name := range mapsOf(deployment) {
		found := &corev1.ConfigMap{}
		err := c.client.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, found)
		switch {
		case apierrors.IsForbidden(err):
			read.unreadable[name] = true
		case client.IgnoreNotFound(err) != nil:
			return read, fmt.Errorf("reading ConfigMap %s/%s: %w", deployment.Namespace, name, err)
		default:
			read.maps[name] = found.Data
		}
	}
	return read, nil
}

// operatorObstacles returns obstacles if no Deployment of BMO exists, or if one has no available replica.
func (s *scope) operatorObstacles() []pivot.Obstacle {
	if len(s.operators) == 0 {
		return []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeOperatorMissing,
			"install it, or use --ignore OperatorMissing if it runs without this label",
			"BMO was not found: no Deployment that watches namespace %s has the label %s=%s",
			s.namespace, operatorLabel, operatorValue)}
	}
	return s.deadOperators()
}

// deadOperators returns obstacles for the Deployments of BMO without an available replica.
func (s *scope) deadOperators() []pivot.Obstacle {
	var found []pivot.Obstacle
	for _, each := range s.operators {
		if each.Status.AvailableReplicas == 0 {
			found = append(found, pivot.About("Deployment", each).Blocks(pivot.CodeOperatorDown,
				"scale it, or check its pods", "BMO does not run: Deployment %s has 0 of %d replicas available",
				each, replicas(each.Deployment)))
		}
	}
	return found
}

// ironicObstacles compares the Ironic of BMO on both sides: BMO in the target acts on the hosts of a namespace without
// spec.ironic as soon as they arrive. The first row that matches counts.
//
//	serving spec.ironic  BMO of the target     BMO of the source                  obstacle
//	any                  unknown Ironic        any                                IronicUnknown
//	exists               another Ironic        any                                IronicDiffers
//	exists               the VIP               neither the VIP nor an Ironic of   IronicDiffers, in the source
//	                                           its own cluster, which may be the
//	                                           same Ironic
//	exists               the VIP               any other, unknown, or no BMO      none
//	none                 any                   unknown, or no BMO                 IronicUnknown
//	none                 the same URL          the same URL                       none
//	none                 anything else         any                                IronicDiffers
func (a arrival) ironicObstacles() []obstacle {
	if a.identity == a.from.identity {
		return nil
	}
	infras := serving(slices.Concat(a.from.everywhere, a.everywhere), a.namespace)
	var vips []string
	for _, infra := range infras {
		vips = append(vips, endpointsOf(infra)...)
	}
	another := func(each operator) bool { return len(vips) > 0 && !slices.Contains(vips, each.uses.endpoint) }
	var found []obstacle
	for _, there := range a.operators {
		switch {
		case there.uses.unknown != "":
			found = append(found, unknownIronic(targetSide, there))
		case another(there):
			found = append(found, differs(targetSide, there, "spec.ironic of "+nameOf(infras), vips[0]))
		case len(vips) == 0:
			found = append(found, a.sameIronic(there)...)
		}
	}
	for _, here := range a.from.operators {
		if here.uses.unknown == "" && !here.uses.own && another(here) {
			found = append(found, differs(sourceSide, here, "spec.ironic of "+nameOf(infras), vips[0]))
		}
	}
	return found
}

// sameIronic compares a BMO of the target with the BMOs of the source, without a VIP.
func (a arrival) sameIronic(there operator) []obstacle {
	if len(a.from.operators) == 0 {
		return at(sourceSide, []pivot.Obstacle{pivot.AboutNothing().Blocks(pivot.CodeIronicUnknown,
			fmt.Sprintf("compare the Ironic of the source with %s, and use --ignore IronicUnknown", there.uses),
			"no Deployment that watches namespace %s has the label %s=%s, so the Ironic of the source is not known",
			a.namespace, operatorLabel, operatorValue)})
	}
	var found []obstacle
	for _, here := range a.from.operators {
		switch {
		case here.uses.unknown != "":
			found = append(found, unknownIronic(sourceSide, here))
		case here.uses.own || there.uses.own || here.uses.endpoint != there.uses.endpoint:
			found = append(found, differs(targetSide, there, "BMO of the source", here.uses.String()))
		}
	}
	return found
}

func unknownIronic(side string, of operator) obstacle {
	return at(side, []pivot.Obstacle{pivot.About("Deployment", of).Blocks(pivot.CodeIronicUnknown,
		"compare the Ironic of both sides yourself, and use --ignore IronicUnknown",
		"the Ironic that Deployment %s of BMO uses is %s", of, of.uses)})[0]
}

func differs(side string, of operator, other, wanted string) obstacle {
	return at(side, []pivot.Obstacle{pivot.About("Deployment", of).Blocks(pivot.CodeIronicDiffers,
		fmt.Sprintf("set %s of BMO to the same Ironic and restart BMO, or, if hosts are to change their Ironic with the "+
			"move, use --ignore IronicDiffers", endpointVariable),
		"Deployment %s of BMO uses %s, and %s has %s", of, of.uses, other, wanted)})[0]
}

func nameOf(infras []*infrav1.Metal3Cluster) string {
	names := make([]string, 0, len(infras))
	for _, infra := range infras {
		names = append(names, "Metal3Cluster "+client.ObjectKeyFromObject(infra).String())
	}
	slices.Sort(names)
	return pivot.Enumerate(slices.Compact(names))
}

// condition returns one line about the target: BMO, its Ironic, and its CRDs.
func (a arrival) condition() string {
	names := make([]string, 0, len(a.operators))
	for _, each := range a.operators {
		names = append(names, fmt.Sprintf("%s (%s available), its Ironic endpoint: %s", each,
			number(int(each.Status.AvailableReplicas), "replica"), each.uses))
	}
	if len(names) == 0 {
		names = append(names, "not found")
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
	return fmt.Sprintf("target: BMO: %s; CustomResourceDefinitions: %d of %d", strings.Join(names, ", "), there, wanted)
}
