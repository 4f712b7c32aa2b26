package plugin

import (
	"context"
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// scope has the facts about a move of one of the two clusters.
type scope struct {
	*sight

	// identity differs between any two clusters.
	identity types.UID

	machines     []*clusterv1.Machine
	remediations []string

	// pausedClasses are the paused ClusterClasses of the namespace, and those of other namespaces that its Clusters use.
	pausedClasses []client.ObjectKey

	// openPools are the names of IPPools with allocated addresses and without spec.clusterName.
	openPools []string

	// naming are Metal3Machines and their templates, BMCEventSubscriptions and HostClaims, which name Secrets.
	naming []metav1.Object

	definitions []definition

	// fieldObstacles are the fields that hosts use and that the CRD of this cluster lacks.
	fieldObstacles []pivot.Obstacle

	// dependants are the other namespaces that depend on the Ironics of the namespace.
	dependants []string

	// providers are the providers that clusterctl has installed.
	providers []clusterctlv1.Provider

	// operators are the Deployments of the Baremetal Operator (BMO) that manage the hosts of the namespace.
	operators []operator

	// everywhere are the Metal3Clusters of all namespaces: BMO has one Ironic for all of them.
	everywhere []*infrav1.Metal3Cluster

	// managerObstacles are the obstacles of the manager of this provider. Empty if it runs.
	managerObstacles []pivot.Obstacle

	// unlabelled are the CRDs of BMO without a label for a move that have objects in the namespace.
	unlabelled []string

	// objects are all objects that could move, by kind, without Secrets.
	objects map[schema.GroupKind]belongings
	secrets belongings
}

// definition has the relevant parts of a CustomResourceDefinition.
type definition struct {
	Name, Storage string
	Kind          schema.GroupKind
	Labels        map[string]string

	// schema is that of the stored version. Nil if it has none.
	schema *apiextensionsv1.JSONSchemaProps
}

// moves returns true if clusterctl discovers the kind.
func (d definition) moves() bool {
	_, labelled := d.Labels[infrav1.DiscoverLabel]
	return labelled || len(pivot.MoveLabels(d.Name)) > 0
}

// belongings are the objects of one kind, by name.
type belongings map[string]*metav1.PartialObjectMetadata

// survey reads the facts about a move of a namespace. A target may lack kinds.
func (c *cluster) survey(ctx context.Context, namespace string) (*scope, error) {
	seen, err := c.lookLeniently(ctx, namespace)
	if err != nil {
		return nil, err
	}
	s := &scope{sight: seen}
	if s.managerObstacles, err = c.manager(ctx); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, *scope) error{
		c.readIdentity, c.readDefinitions, c.readMachines, c.readNaming, c.readNames, c.readClasses, c.readProviders,
		c.readObjects, c.readUnlabelled, c.readOperators, c.readDependants,
	} {
		if err := read(ctx, s); err != nil {
			return nil, c.blind(err)
		}
	}
	return s, nil
}

func (c *cluster) readIdentity(ctx context.Context, s *scope) error {
	system := &corev1.Namespace{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("reading namespace %s: %w", metav1.NamespaceSystem, err)
	}
	s.identity = system.UID
	return nil
}

func (c *cluster) readDefinitions(ctx context.Context, s *scope) error {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := c.client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	for i := range list.Items {
		item := &list.Items[i]
		found := definition{
			Name: item.Name, Labels: item.Labels,
			Kind: schema.GroupKind{Group: item.Spec.Group, Kind: item.Spec.Names.Kind},
		}
		for _, version := range item.Spec.Versions {
			if !version.Storage {
				continue
			}
			found.Storage = version.Name
			if version.Schema != nil {
				found.schema = version.Schema.OpenAPIV3Schema
			}
		}
		s.definitions = append(s.definitions, found)
	}
	return nil
}

func (c *cluster) readMachines(ctx context.Context, s *scope) error {
	var machines clusterv1.MachineList
	if err := c.client.List(ctx, &machines, client.InNamespace(s.namespace)); c.missing(err) != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		s.machines = append(s.machines, &machines.Items[i])
	}
	var bodies infrav1.Metal3MachineList
	if err := c.client.List(ctx, &bodies, client.InNamespace(s.namespace)); c.missing(err) != nil {
		return fmt.Errorf("listing Metal3Machines: %w", err)
	}
	for i := range bodies.Items {
		s.naming = append(s.naming, &bodies.Items[i])
	}
	var templates infrav1.Metal3MachineTemplateList
	if err := c.client.List(ctx, &templates, client.InNamespace(s.namespace)); c.missing(err) != nil {
		return fmt.Errorf("listing Metal3MachineTemplates: %w", err)
	}
	for i := range templates.Items {
		s.naming = append(s.naming, &templates.Items[i])
	}
	return nil
}

// readNaming reads objects of other projects that name Secrets. Not every BMO has their kinds.
func (c *cluster) readNaming(ctx context.Context, s *scope) error {
	var subscriptions bmov1alpha1.BMCEventSubscriptionList
	if err := c.client.List(ctx, &subscriptions, client.InNamespace(s.namespace)); err != nil && !lacksKind(err) {
		return fmt.Errorf("listing BMCEventSubscriptions: %w", err)
	}
	for i := range subscriptions.Items {
		s.naming = append(s.naming, &subscriptions.Items[i])
	}
	var claims bmov1alpha1.HostClaimList
	if err := c.client.List(ctx, &claims, client.InNamespace(s.namespace)); err != nil && !lacksKind(err) {
		return fmt.Errorf("listing HostClaims: %w", err)
	}
	for i := range claims.Items {
		s.naming = append(s.naming, &claims.Items[i])
	}
	return nil
}

// readNames reads the objects of which only the name counts.
func (c *cluster) readNames(ctx context.Context, s *scope) error {
	remediations, err := c.list(ctx, infrav1.GroupVersion.WithKind("Metal3Remediation"), s.namespace)
	if err != nil {
		return err
	}
	pools := pivot.Pools()
	if err := c.client.List(ctx, pools, client.InNamespace(s.namespace)); err != nil && !lacksKind(err) {
		return fmt.Errorf("listing IPPools: %w", err)
	}
	var facts pivot.MoveFacts
	facts.AddPools(pools)
	for i := range remediations {
		facts.AddRemediation(&remediations[i])
	}
	s.remediations, s.openPools = facts.Remediations, facts.OpenPools
	return nil
}

// readProviders reads the providers that clusterctl has installed, if any.
func (c *cluster) readProviders(ctx context.Context, s *scope) error {
	var list clusterctlv1.ProviderList
	err := c.client.List(ctx, &list)
	if err != nil && !lacksKind(err) {
		return fmt.Errorf("listing the Providers of clusterctl: %w", err)
	}
	s.providers = list.Items
	return nil
}

// listers is the number of kinds that are listed at the same time. The first list of a kind may take a second or more,
// because the API server prepares a kind when it is first used.
const listers = 8

// readObjects reads the metadata of all objects that could move. It does not read the content of Secrets.
func (c *cluster) readObjects(ctx context.Context, s *scope) error {
	var kinds []schema.GroupVersionKind
	for _, kind := range s.definitions {
		if kind.moves() {
			kinds = append(kinds, kind.Kind.WithVersion(kind.Storage))
		}
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(listers)
	read := func(kind schema.GroupVersionKind, into *belongings) {
		work.Go(func() error {
			listed, err := c.list(ctx, kind, s.namespace)
			*into = byName(listed)
			return err
		})
	}
	read(corev1.SchemeGroupVersion.WithKind("Secret"), &s.secrets)
	found := make([]belongings, len(kinds))
	for i, kind := range kinds {
		read(kind, &found[i])
	}
	if err := work.Wait(); err != nil {
		return err
	}
	s.objects = map[schema.GroupKind]belongings{}
	for i, kind := range kinds {
		s.objects[kind.GroupKind()] = found[i]
	}
	return nil
}

// readUnlabelled finds the objects of BMO whose kind clusterctl does not discover, such as those of a newer BMO.
func (c *cluster) readUnlabelled(ctx context.Context, s *scope) error {
	for _, each := range s.definitions {
		if each.Kind.Group != bmov1alpha1.GroupVersion.Group || each.moves() {
			continue
		}
		listed, err := c.list(ctx, each.Kind.WithVersion(each.Storage), s.namespace)
		if err != nil {
			return err
		}
		// A list of a cluster-scoped kind has all objects.
		if len(listed) > 0 && listed[0].Namespace == s.namespace {
			s.unlabelled = append(s.unlabelled, each.Name)
		}
	}
	return nil
}

func (c *cluster) list(
	ctx context.Context, kind schema.GroupVersionKind, namespace string,
) ([]metav1.PartialObjectMetadata, error) {
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.client.List(ctx, &list, client.InNamespace(namespace)); c.missing(err) != nil {
		return nil, fmt.Errorf("listing %s in namespace %s: %w", kind.GroupKind(), namespace, err)
	}
	return list.Items, nil
}

// missing ignores the error of a kind that a target lacks: definitionObstacles reports it.
func (c *cluster) missing(err error) error {
	if c.side == targetSide && lacksKind(err) {
		return nil
	}
	return err
}

func byName(objects []metav1.PartialObjectMetadata) belongings {
	named := make(belongings, len(objects))
	for i := range objects {
		named[objects[i].Name] = &objects[i]
	}
	return named
}

// ours returns true for a CRD of BMO, of its address manager, or of this provider.
func (d definition) ours() bool {
	return d.Kind.Group == "metal3.io" || strings.HasSuffix(d.Kind.Group, ".metal3.io") ||
		d.Kind.Group == infrav1.GroupVersion.Group && strings.HasPrefix(d.Kind.Kind, "Metal3")
}
