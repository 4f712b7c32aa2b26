package pivot_test

import (
	"fmt"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestManyHosts counts the allocations for each host, with its Machine, Metal3Machine and two Secrets, of a namespace
// without obstacles. Each reconcile of a Metal3Cluster judges all hosts.
func TestManyHosts(t *testing.T) {
	const hosts = 100
	for name, tc := range map[string]struct {
		judge func(facts pivot.MoveFacts)
		limit float64
	}{
		"the obstacles": {limit: 10, judge: func(facts pivot.MoveFacts) {
			// The Cluster itself is not provisioned.
			if found := pivot.Obstacles(facts); len(found) != 1 {
				t.Fatalf("obstacles: %v", found)
			}
		}},
		"the Secrets": {limit: 5, judge: func(facts pivot.MoveFacts) {
			if !pivot.SecretsMove(facts) {
				t.Fatal("a Secret does not move")
			}
		}},
		"the progress": {limit: 5, judge: func(facts pivot.MoveFacts) {
			pivot.ProgressOf("c", false, true, facts.Hosts, facts.Around)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(hosts int) float64 {
				facts := quietFacts(hosts)
				// An average, because the runtime allocates beside the test.
				return testing.AllocsPerRun(20, func() { tc.judge(facts) })
			}
			if each := (count(2*hosts) - count(hosts)) / hosts; each > tc.limit {
				t.Errorf("%.1f allocations for each host, at most %.0f wanted", each, tc.limit)
			}
		})
	}
}

// quietFacts are the facts of a movable namespace with one Cluster, and a number of hosts, Machines and Metal3Machines.
func quietFacts(hosts int) pivot.MoveFacts {
	facts := pivot.MoveFacts{
		Clusters: []*clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Name: "c"}}},
		Around:   []pivot.Neighbour{{Name: "c", Verified: true}},
		Secrets:  map[string]*metav1.PartialObjectMetadata{},
	}
	moved := map[string]string{infrav1.DiscoverLabel: "", infrav1.MoveLabel: "", infrav1.MoveHierarchyLabel: ""}
	for _, name := range []string{
		"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "baremetalhosts.metal3.io",
	} {
		facts.AddDefinition(name, moved)
	}
	ownedBy := func(name, kind string, group fmt.Stringer, owner string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: group.String(), Kind: kind, Name: owner},
		}}
	}
	for i := range hosts {
		name := fmt.Sprintf("host-%d", i)
		host := &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
		}}
		host.Spec.BMC.CredentialsName, host.Spec.UserData = name+"-bmc", &corev1.SecretReference{Name: name}
		host.Spec.ConsumerRef = &corev1.ObjectReference{
			Kind: "Metal3Machine", APIVersion: infrav1.GroupVersion.String(), Name: name,
		}
		host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		machine := &clusterv1.Machine{ObjectMeta: ownedBy(name, "Cluster", clusterv1.GroupVersion, "c")}
		machine.Status.NodeRef.Name = name
		facts.Hosts, facts.Machines = append(facts.Hosts, host), append(facts.Machines, machine)
		facts.Naming = append(facts.Naming, &infrav1.Metal3Machine{
			ObjectMeta: ownedBy(name, "Machine", clusterv1.GroupVersion, name),
		})
		facts.Secrets[name] = &metav1.PartialObjectMetadata{
			ObjectMeta: ownedBy(name, "Cluster", clusterv1.GroupVersion, "c"),
		}
		facts.Secrets[name+"-bmc"] = &metav1.PartialObjectMetadata{
			ObjectMeta: ownedBy(name+"-bmc", "BareMetalHost", bmov1alpha1.GroupVersion, name),
		}
	}
	return facts
}
