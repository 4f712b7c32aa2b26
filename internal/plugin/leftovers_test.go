package plugin

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// put adds objects of a kind to a side. They belong to Cluster c.
func (s *scope) put(kind string, objects ...*metav1.PartialObjectMetadata) *scope {
	s.definitions = definitionsOf("v1")
	for _, known := range s.definitions {
		if known.Kind.Kind == kind && s.objects[known.Kind] == nil {
			s.objects[known.Kind] = belongings{}
		}
		for _, object := range objects {
			object.UID = types.UID(kind + "-" + object.Name)
			if known.Kind.Kind == kind {
				s.objects[known.Kind][object.Name] = object
			}
		}
	}
	for _, object := range objects {
		if kind == "Secret" {
			s.secrets[object.Name] = object
		}
	}
	return s
}

// identify sets UIDs of all objects and of their owners.
func (s *scope) identify() {
	for kind, objects := range s.objects {
		for _, object := range objects {
			object.UID = types.UID(kind.Kind + "-" + object.Name)
			for i := range object.OwnerReferences {
				owner := &object.OwnerReferences[i]
				owner.UID = types.UID(owner.Kind + "-" + owner.Name)
			}
		}
	}
}

// leftHost is a paused host on one side, with a status or being deleted.
func (s *scope) leftHost(name string, edit func(*bmov1alpha1.BareMetalHost)) *scope {
	host := ownedHost(name, "c", build.Paused(infrav1.HostPausedByProvider))
	host.Status = bmov1alpha1.BareMetalHostStatus{}
	edit(host)
	s.hosts = append(s.hosts, host)
	return s.put("BareMetalHost", named(name, "c"))
}

func belongingTo(name, kind, owner string) *metav1.PartialObjectMetadata {
	object := named(name, "")
	reference := ownerOf(kind, owner)
	reference.UID = types.UID(kind + "-" + owner)
	object.OwnerReferences = []metav1.OwnerReference{reference}
	return object
}

// ownerOf is a reference to an owner. A kind that clusterctl does not discover has another API group.
func ownerOf(kind, name string) metav1.OwnerReference {
	reference := metav1.OwnerReference{APIVersion: "external-secrets.io/v1", Kind: kind, Name: name}
	for _, known := range definitionsOf("v1") {
		if known.Kind.Kind == kind {
			reference.APIVersion = known.Kind.WithVersion(known.Storage).GroupVersion().String()
		}
	}
	return reference
}

func TestTargetLeftovers(t *testing.T) {
	going := func(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		object.DeletionTimestamp = ptr.To(metav1.Now())
		return object
	}
	as := func(*bmov1alpha1.BareMetalHost) {}
	withStatus := func(host *bmov1alpha1.BareMetalHost) { host.Status.LastUpdated = ptr.To(metav1.Now()) }
	moved := named("moved", "")
	moved.Annotations = map[string]string{infrav1.StatusOriginAnnotation: "uid"}
	movedWith := func(cluster string) *metav1.PartialObjectMetadata {
		host := named("moved", cluster)
		host.Annotations = map[string]string{infrav1.StatusOriginAnnotation: "uid"}
		return host
	}
	beside := func(paused bool) *scope {
		target, other := copied(true, "3"), runningCluster("other")
		other.Spec.Paused = ptr.To(paused)
		target.clusters = append(target.clusters, other)
		return target
	}
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		force          bool
		want           []string
		refused        []pivot.Code
	}{
		"Nothing": {reason: "the target is empty", source: copied(false, "4", "m"), target: nothing()},
		"Copies": {
			reason: "clusterctl updates them", source: copied(false, "4", "m"), target: copied(true, "3", "m"),
		},
		"GivenUp": {
			reason: "controllers would reconcile an object that was deleted in the source",
			source: copied(false, "4", "m"), target: copied(true, "3", "m", "n"), want: []string{"Machine n"},
		},
		"NoCluster": {
			reason: "the Cluster itself was not copied, and a Machine was",
			source: copied(false, "2", "m"), target: nothing().put("Machine", named("n", "c"), named("other", "d"), named("own", "")),
			want: []string{"Machine n"},
		},
		"Owned": {
			reason: "what belongs to it goes first, and the Secret of another object stays",
			source: copied(false, "4"), target: copied(true, "3").leftHost("n", as).put("Secret",
				belongingTo("n-bmc", "BareMetalHost", "n"), belongingTo("other", "BareMetalHost", "gone")),
			want: []string{"Secret n-bmc", "BareMetalHost n"},
		},
		"Moved": {
			reason: "a free host that came with a move", source: copied(false, "4"), target: copied(true, "3").put("BareMetalHost", moved),
			want: []string{"BareMetalHost moved"},
		},
		"MovedWithOther": {
			reason: "the target manages the host of a Cluster that runs", source: copied(false, "4"),
			target: beside(false).put("BareMetalHost", movedWith("other")),
		},
		"MovedWithPaused": {
			reason: "no Cluster of the host runs", source: copied(false, "4"),
			target: beside(true).put("BareMetalHost", movedWith("other")), want: []string{"BareMetalHost moved"},
		},
		"MovedWithOurs": {
			reason: "a host that was deleted in the source", source: copied(false, "4"),
			target: beside(false).put("BareMetalHost", movedWith("c")), want: []string{"BareMetalHost moved"},
		},
		"Half": {
			reason: "the deletion would continue after the move", source: copied(false, "4", "m"),
			target: copied(true, "3").put("Machine", going(named("m", "c"))), want: []string{"Machine m"},
		},
		"HostWithStatus": {
			reason: "BMO ignores the status that arrives", source: copied(false, "4").leftHost("a", as).leftHost("b", as),
			target: copied(true, "3").leftHost("a", withStatus).leftHost("b", as), want: []string{"BareMetalHost a"},
		},
		"OtherHost": {
			reason: "it is another machine, which a user paused", source: copied(false, "4").leftHost("a", as),
			target: copied(true, "3").leftHost("a", func(host *bmov1alpha1.BareMetalHost) {
				withStatus(host)
				host.Spec.BMC.Address, host.Spec.BootMACAddress = "redfish://192.0.2.77/redfish/v1/Systems/1", "00:00:5e:00:53:77"
			}),
		},
		"HalfOfOther": {
			reason: "another Cluster of the target has the Machine", source: copied(false, "4", "m"),
			target: copied(true, "3").put("Machine", going(named("m", "other"))),
		},
		"NotComplete": {
			reason: "clusterctl deletes nothing before all is copied", source: copied(true, "3", "m", "o"),
			target: copied(true, "3", "m", "n"), want: []string{"Machine n"},
		},
		"Complete": {
			reason: "clusterctl may have deleted it in the source", source: copied(true, "3", "m"), target: copied(true, "3", "m", "n"),
			refused: []pivot.Code{pivot.CodeWrongStage},
		},
		"CompleteBesideSecret": {
			reason: "clusterctl does not move the Secret, so the copy is complete",
			source: copied(true, "3", "m").put("Secret", belongingTo("x", "ExternalSecret", "x")),
			target: copied(true, "3", "m", "n"), refused: []pivot.Code{pivot.CodeWrongStage},
		},
		"Forced": {
			reason: "a person knows", source: copied(true, "3", "m"), target: copied(true, "3", "m", "n"), force: true,
			want: []string{"Machine n"},
		},
		"Deleting": {
			reason: "the inventory knows better than a person", source: recorded(copied(true, "3", "m"), `{"Machine":["m","n"]}`),
			target: copied(true, "3", "m", "n"), force: true, refused: []pivot.Code{pivot.CodeWrongStage},
		},
		"Runs": {
			reason: "the target manages its objects", source: copied(true, "3", "m"), target: copied(false, "4", "m", "n"), force: true,
			refused: []pivot.Code{pivot.CodeWrongStage},
		},
		"Newer": {
			reason: "the target managed it last", source: copied(true, "3", "m"), target: copied(true, "5", "m", "n"), force: true,
			refused: []pivot.Code{pivot.CodeWrongStage},
		},
		"NoSource": {
			reason: "the target may have the only copies", source: nothing(), target: copied(true, "3", "m"), force: true,
			refused: []pivot.Code{pivot.CodeWrongStage},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, side := range []*scope{tc.source, tc.target} {
				side.put("Cluster").put("Machine").put("Metal3Cluster")
				side.identify()
			}
			left, refusals := targetLeftovers(tc.source, tc.target, tc.force)
			var got []string
			for _, each := range left {
				got = append(got, each.String())
			}
			var codes []pivot.Code
			for _, each := range refusals {
				codes = append(codes, each.Code)
			}
			if !slices.Equal(tc.want, got) || !slices.Equal(tc.refused, codes) {
				t.Errorf("%s: -want +got:\n%s\n%v", tc.reason, cmp.Diff(tc.want, got), refusals)
			}
		})
	}
}
