package pivot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// NamedSecrets returns the sorted names of the Secrets that the spec of a host, a Metal3Machine, a template of
// Metal3Machines, a Metal3Cluster, a BMCEventSubscription or a HostClaim references in the namespace of the object. It
// omits references into other namespaces: they are forbidden, and clusterctl does not follow them.
func NamedSecrets(object metav1.Object) []string {
	references, names := referred(object)
	for _, reference := range references {
		if reference != nil && (reference.Namespace == "" || reference.Namespace == object.GetNamespace()) {
			names = append(names, reference.Name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// referred returns the references of a spec that have no namespace or the given one.
func referred(object metav1.Object) (references []*corev1.SecretReference, names []string) {
	switch object := object.(type) {
	case *bmov1alpha1.BareMetalHost:
		spec := &object.Spec
		references = append(references, spec.UserData, spec.MetaData, spec.NetworkData)
		names = append(names, spec.PreprovisioningNetworkDataName, spec.BMC.CredentialsName, ofRegistry(spec.Image))
	case *bmov1alpha1.HostClaim:
		spec := &object.Spec
		references = append(references, spec.UserData, spec.MetaData, spec.NetworkData)
		names = append(names, ofRegistry(spec.Image))
	case *bmov1alpha1.BMCEventSubscription:
		references = append(references, object.Spec.HTTPHeadersRef)
	case *infrav1.Metal3Machine:
		references = ofMachine(&object.Spec)
	case *infrav1.Metal3MachineTemplate:
		references = ofMachine(&object.Spec.Template.Spec)
	case *infrav1.Metal3Cluster:
		references = ofEndpoint(object.Spec.Ironic)
	}
	return references, names
}

// ofRegistry returns the Secret for the registry of an image. Empty if there is none.
func ofRegistry(image *bmov1alpha1.Image) string {
	if image == nil {
		return ""
	}
	return ptr.Deref(image.OCIAuthSecretName, "")
}

func ofMachine(spec *infrav1.Metal3MachineSpec) []*corev1.SecretReference {
	return []*corev1.SecretReference{spec.UserData, spec.MetaData, spec.NetworkData}
}

func ofEndpoint(spec *infrav1.Ironic) []*corev1.SecretReference {
	var references []*corev1.SecretReference
	if spec != nil {
		for _, given := range []*corev1.LocalObjectReference{spec.CredentialsRef, spec.TLSRef} {
			if given != nil {
				references = append(references, &corev1.SecretReference{Name: given.Name})
			}
		}
	}
	return references
}

// Moves returns true if clusterctl moves an object because of its own label or of an owner.
func Moves(object metav1.Object) bool {
	_, labelled := object.GetLabels()[infrav1.MoveLabel]
	return labelled || len(object.GetOwnerReferences()) > 0
}

// moveLabelled are the kept labels of all Secrets that move by their label.
var moveLabelled = map[string]string{infrav1.MoveLabel: ""}

// AddSecret adds a Secret to f.Secrets, with the metadata alone that decides whether clusterctl moves it: there are
// thousands of Secrets.
func (f *MoveFacts) AddSecret(secret *metav1.PartialObjectMetadata) {
	kept := metav1.ObjectMeta{Name: secret.Name, OwnerReferences: secret.OwnerReferences}
	if _, labelled := secret.Labels[infrav1.MoveLabel]; labelled {
		kept.Labels = moveLabelled
	}
	f.Secrets[secret.Name] = &metav1.PartialObjectMetadata{ObjectMeta: kept}
}

// leftBehind returns what clusterctl would omit without an error: objects with an owner that does not move, and Secrets
// without owner and label. BMO reports a referenced Secret that does not exist.
func leftBehind(facts MoveFacts) []Obstacle {
	var found []Obstacle
	for _, cluster := range facts.Clusters {
		found = append(found, facts.ownersThatStay(About("Cluster", cluster), cluster, "Cluster ", cluster.Name)...)
	}
	for _, machine := range facts.Machines {
		found = append(found, facts.ownersThatStay(About("Machine", machine), machine, "Machine ", machine.Name)...)
	}
	for _, host := range facts.Hosts {
		found = append(found, facts.ownersThatStay(About(hostKind, host), host, "host ", host.Name)...)
	}
	for _, object := range facts.Naming {
		kind := kindOf(object)
		found = append(found, facts.ownersThatStay(About(kind, object), object, kind, " ", object.GetName())...)
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Others)) {
		kind, _, _ := strings.Cut(name, " ")
		found = append(found, facts.ownersThatStay(About(kind, facts.Others[name]), facts.Others[name], name)...)
	}
	told := map[string]bool{}
	for object, name := range facts.named {
		if secret, exists := facts.Secrets[name]; exists && !told[name] {
			told[name] = true
			found = append(found, facts.secretObstacles(object, name, secret)...)
		}
	}
	return found
}

// SecretsMove returns true if all referenced Secrets of a namespace were read, and would move.
func SecretsMove(facts MoveFacts) bool {
	for object, name := range facts.named {
		if secret, exists := facts.Secrets[name]; !exists || len(facts.secretObstacles(object, name, secret)) > 0 {
			return false
		}
	}
	return true
}

// named yields every object that references Secrets, and the references.
func (f *MoveFacts) named(yield func(object metav1.Object, name string) bool) {
	all := func(object metav1.Object) bool {
		for _, name := range NamedSecrets(object) {
			if !yield(object, name) {
				return false
			}
		}
		return true
	}
	for _, object := range f.Naming {
		if !all(object) {
			return
		}
	}
	for _, host := range f.Hosts {
		if !all(host) {
			return
		}
	}
}

// secretObstacles returns why clusterctl would not move a Secret that an object references.
func (f *MoveFacts) secretObstacles(object metav1.Object, name string, secret metav1.Object) []Obstacle {
	about := AboutNamed("Secret", object.GetNamespace(), name)
	kind := kindOf(object)
	if kind == hostKind {
		kind = "host"
	}
	called := []string{"Secret ", name, " of ", kind, " ", object.GetName()}
	if Moves(secret) {
		return f.ownersThatStay(about, secret, called...)
	}
	remedy := fmt.Sprintf("set label %s on it", infrav1.MoveLabel)
	switch object.(type) {
	case *bmov1alpha1.BMCEventSubscription, *bmov1alpha1.HostClaim:
		// The manager does not read these kinds, because not every BMO has them.
	default:
		remedy += ", or run the manager with --keep-move-labels"
	}
	return []Obstacle{about.Blocks(CodeSecretStays, remedy, "%s has no owner and would stay behind",
		strings.Join(called, ""))}
}

// ownersThatStay returns the owners of an object that clusterctl does not move. With one such owner, clusterctl omits
// the object, independent of labels and other owners. Called is the name of the object in messages. It is built only
// for an obstacle, because most objects have none.
//
//	definition of the owner                         remedy
//	was not read, as none was                       nothing is said
//	has the label that clusterctl requires          none required
//	is one of Cluster API or of BMO                 set the label, or remove the owner reference
//	is another, or is none as it is no custom kind  remove the owner reference
func (f *MoveFacts) ownersThatStay(about Subject, object metav1.Object, called ...string) []Obstacle {
	var found []Obstacle
	for _, owner := range object.GetOwnerReferences() {
		name, moves := f.definitionOf(owner)
		if f.definitions == nil || moves {
			continue
		}
		remedy := "remove the owner reference"
		if strings.HasSuffix(name, "cluster.x-k8s.io") || strings.HasSuffix(name, "metal3.io") {
			remedy = fmt.Sprintf("set label %s on CustomResourceDefinition %s, or %s", infrav1.DiscoverLabel, name, remedy)
		}
		found = append(found, about.Blocks(CodeOwnerStays, remedy,
			"%s is owned by %s %s, which does not move", strings.Join(called, ""), owner.Kind, owner.Name))
	}
	return found
}

// definitionOf returns the name of the CRD of an owner, empty if there is none, and whether clusterctl discovers its
// kind. It searches once for each kind: thousands of objects have owners of few kinds.
func (f *MoveFacts) definitionOf(owner metav1.OwnerReference) (name string, moves bool) {
	kind := ownerKind{owner.APIVersion, owner.Kind}
	name, known := f.owners[kind]
	if !known {
		name = f.findDefinition(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
		if f.owners == nil {
			f.owners = map[ownerKind]string{}
		}
		f.owners[kind] = name
	}
	return name, f.definitions[name]
}

// findDefinition returns the name of the CRD of a kind, empty if there is none. CRDs are read without their kind, but
// their name begins with its singular or plural.
func (f *MoveFacts) findDefinition(kind schema.GroupVersionKind) string {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	for _, resource := range []schema.GroupVersionResource{plural, singular} {
		name := resource.GroupResource().String()
		if _, exists := f.definitions[name]; exists {
			return name
		}
	}
	return ""
}

// kindOf returns the kind of an object that references Secrets: typed objects from a list lack it.
func kindOf(object metav1.Object) string {
	switch object.(type) {
	case *infrav1.Metal3Machine:
		return "Metal3Machine"
	case *infrav1.Metal3MachineTemplate:
		return "Metal3MachineTemplate"
	case *infrav1.Metal3Cluster:
		return "Metal3Cluster"
	case *bmov1alpha1.BMCEventSubscription:
		return "BMCEventSubscription"
	case *bmov1alpha1.HostClaim:
		return "HostClaim"
	default:
		return hostKind
	}
}
