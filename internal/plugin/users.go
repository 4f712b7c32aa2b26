package plugin

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// arrivalOf returns the judgement of the target about the objects that arrive from the source.
func arrivalOf(source, target *scope) arrival {
	a := arrival{scope: target, from: source, foreign: foreignIn(source, target)}
	a.owned, a.named = a.owners(), a.secretUsers()
	return a
}

// userOf names an object of the target that does not arrive and that uses one that does: it names the Secret, or the
// other object owns it. Empty if there is none.
func (a arrival) userOf(used located, there *metav1.PartialObjectMetadata) string {
	if used.kind == secretKind() && a.named[used.name] != "" {
		return a.named[used.name]
	}
	return a.owned[there.UID]
}

// stays returns true for an object of the target that does not arrive: the source lacks it, or has another object of
// its name.
func (a arrival) stays(object located) bool { return !a.from.has(object) || a.foreign[object] }

// owners returns the owners of the objects of the target that do not arrive, by UID, with the first object of each.
func (a arrival) owners() map[types.UID]string {
	users := map[types.UID]string{}
	for _, kind := range append(a.kinds(), secretKind()) {
		for _, name := range sortedKeys(a.all(kind)) {
			if !a.stays(located{kind, name}) {
				continue
			}
			for _, owner := range a.all(kind)[name].OwnerReferences {
				if users[owner.UID] == "" && owner.UID != "" {
					users[owner.UID] = kind.Kind + " " + name
				}
			}
		}
	}
	return users
}

// secretUsers returns the Secrets that objects of the target name that do not arrive, with the first object of each.
func (a arrival) secretUsers() map[string]string {
	users := map[string]string{}
	enter := func(user string, object metav1.Object) {
		for _, secret := range pivot.NamedSecrets(object) {
			if users[secret] == "" {
				users[secret] = user
			}
		}
	}
	for _, host := range a.hosts {
		if a.stays(located{hostKindOf(), host.Name}) {
			enter("BareMetalHost "+host.Name, host)
		}
	}
	arriving := map[string]metav1.Object{}
	for _, object := range a.from.naming {
		arriving[typedName(object)] = object
	}
	for _, object := range a.naming {
		if other, arrives := arriving[typedName(object)]; !arrives || a.from.isOther(other, object) {
			enter(typedName(object), object)
		}
	}
	return users
}

// typedName returns the kind and name of an object that is read completely.
func typedName(object metav1.Object) string {
	return reflect.TypeOf(object).Elem().Name() + " " + object.GetName()
}
