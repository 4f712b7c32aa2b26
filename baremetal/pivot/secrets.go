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

// NamedSecrets returns the names of the Secrets that the spec of a host, a Metal3Machine, a template of them, a
// Metal3Cluster, a BMCEventSubscription or a HostClaim refers to in the namespace of the object, sorted. A reference
// into another namespace is left out: it is not allowed, and clusterctl does not look there.
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

// referred is what a spec refers to: in a namespace that it gives, and in its own.
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

// ofRegistry is the Secret for the registry that an image comes from. Empty if there is none.
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

// Moves says whether clusterctl takes an object along, unless its definition says so: by its own label, or because of
// an owner.
func Moves(object metav1.Object) bool {
	_, labelled := object.GetLabels()[infrav1.MoveLabel]
	return labelled || len(object.GetOwnerReferences()) > 0
}

// leftBehind names what clusterctl would pass over without a word: what is owned by something that does not move, and
// Secrets that nothing takes along. A Secret that is named and does not exist is BMO's matter.
func leftBehind(facts MoveFacts) []Obstacle {
	var found []Obstacle
	for _, cluster := range facts.Clusters {
		found = append(found, facts.strangers(About("Cluster", cluster), cluster, "Cluster ", cluster.Name)...)
	}
	for _, machine := range facts.Machines {
		found = append(found, facts.strangers(About("Machine", machine), machine, "Machine ", machine.Name)...)
	}
	for _, host := range facts.Hosts {
		found = append(found, facts.strangers(About(hostKind, host), host, "host ", host.Name)...)
	}
	for _, object := range facts.Naming {
		kind := kindOf(object)
		found = append(found, facts.strangers(About(kind, object), object, kind, " ", object.GetName())...)
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Others)) {
		kind, _, _ := strings.Cut(name, " ")
		found = append(found, facts.strangers(About(kind, facts.Others[name]), facts.Others[name], name)...)
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

// SecretsMove says whether all Secrets that are named in a namespace were seen, and would move.
func SecretsMove(facts MoveFacts) bool {
	for object, name := range facts.named {
		if secret, exists := facts.Secrets[name]; !exists || len(facts.secretObstacles(object, name, secret)) > 0 {
			return false
		}
	}
	return true
}

// named goes through everything that names Secrets, and what it names.
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

// secretObstacles says why a Secret that an object names would stay behind.
func (f *MoveFacts) secretObstacles(object metav1.Object, name string, secret metav1.Object) []Obstacle {
	about := AboutNamed("Secret", object.GetNamespace(), name)
	kind := kindOf(object)
	if kind == hostKind {
		kind = "host"
	}
	called := []string{"Secret ", name, " of ", kind, " ", object.GetName()}
	if Moves(secret) {
		return f.strangers(about, secret, called...)
	}
	remedy := fmt.Sprintf("set label %s on it", infrav1.MoveLabel)
	switch object.(type) {
	case *bmov1alpha1.BMCEventSubscription, *bmov1alpha1.HostClaim:
		// The manager does not look at these: not every BMO has them.
	default:
		remedy += ", or run the manager with --keep-move-labels"
	}
	return []Obstacle{about.Blocks(CodeSecretStays, remedy, "%s has no owner and would stay behind",
		strings.Join(called, ""))}
}

// strangers names the owners of an object that clusterctl does not move. With one such owner clusterctl leaves the
// object out, independent of labels and other owners. Called are the words for the object: they are joined only for an
// obstacle, because most objects have none.
//
//	definition of the owner                         remedy
//	was not read, as none was                       nothing is said
//	has the label that clusterctl looks for         none needed
//	is one of Cluster API or of BMO   set the label, or remove the owner reference
//	is another, or is none as it is no custom kind  remove the owner reference
func (f *MoveFacts) strangers(about Subject, object metav1.Object, called ...string) []Obstacle {
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

// definitionOf is the name of the definition of an owner, and whether clusterctl looks at its kind. The name is empty
// if there is no definition. It searches once for each kind: thousands of objects have owners of few kinds.
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

// findDefinition is the name of the definition of a kind, empty if there is none. A definition is read without its
// kind, but its name begins with the singular or plural of that.
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

// kindOf is the kind of an object that names Secrets: a typed object out of a list does not say it.
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
