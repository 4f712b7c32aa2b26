package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// companyName is a cluster of one machine without an Ironic endpoint.
const companyName = "company"

// moveInVain starts to move to the management cluster while its API server is unavailable. clusterctl ends before it
// has paused any object, and the managers of the cluster continue.
func (e *endpoint) moveInVain(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	withoutAPIServer(ctx, func(away func(Gomega)) {
		started := e.begin(ctx, to)
		var failed error
		Eventually(started.ended, patiently()...).WithContext(ctx).Should(Receive(&failed))
		Expect(failed).To(HaveOccurred())
		fmt.Printf("clusterctl ended after %s: %v\n", time.Since(started.began).Round(time.Second), failed)
		Expect(e.pivot(ctx, to, "preflight")).To(ended(2))
		// Only an unpaused provider restores this.
		stage.Change(ctx, e.Client, named(endpointCluster), &infrav1.Metal3Cluster{}, func(infra *infrav1.Metal3Cluster) {
			delete(infra.Annotations, infrav1.BlockMoveAnnotation)
		})
		Eventually(func(g Gomega) {
			var infra infrav1.Metal3Cluster
			g.Expect(e.Get(ctx, named(endpointCluster), &infra)).To(Succeed())
			g.Expect(infra.Annotations).To(HaveKey(infrav1.BlockMoveAnnotation))
		}, patiently()...).Should(Succeed())
		Consistently(func(g Gomega) {
			away(g)
			found := clusterIn(ctx, g, e.home)
			g.Expect(found).NotTo(BeNil())
			g.Expect(ptr.Deref(found.Spec.Paused, false)).To(BeFalse(), "the Cluster is paused")
			g.Expect(e.hosts(ctx, g)).To(HaveEach(isNotPaused()))
			g.Expect(changes(e.untouched)).To(BeEmpty())
		}, calm, often).Should(Succeed())
	})
	Eventually(func() ran { return e.pivot(ctx, to, "preflight") }, patiently()[0], calm).Should(ended(0, "Ready: "))
}

// beginHeldDeletion starts a move from a cluster with a hold on the deletion of Machines. It waits until all objects
// were copied and the source has lost the dependents of the Machines.
func (e *endpoint) beginHeldDeletion(ctx context.Context, to *lab.Cluster) *journey {
	GinkgoHelper()
	hold(ctx, e.home, admissionv1.Delete)
	started := e.begin(ctx, to)
	Eventually(func(g Gomega) {
		var machines clusterv1.MachineList
		g.Expect(e.List(ctx, &machines, client.InNamespace(lab.Namespace))).To(Succeed())
		g.Expect(machines.Items).To(And(HaveLen(*controlPlanes+e.workers),
			ContainElement(HaveField("Annotations", HaveKey(infrav1.DeleteForMoveAnnotation)))))
	}, patiently()...).Should(Succeed())
	Expect(started.ended).NotTo(Receive(), "clusterctl has ended")
	return started
}

// loseManagementWhileDeleting starts a move and loses the management machine with clusterctl after all objects were
// copied. A user unpauses the cluster in the target.
func (e *endpoint) loseManagementWhileDeleting(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	started := e.beginHeldDeletion(ctx, to)
	Expect(bed.lab.Machine(lab.ManagementName).PowerOff(ctx)).To(Succeed())
	started.kill()
	Eventually(started.ended, patiently()...).Should(Receive(HaveOccurred()))
	e.live(to)
	e.unpause(ctx)
}

// loseWhileDeleting starts a move and kills clusterctl after all objects were copied. Another clusterctl fails, and
// no controller acts on objects that exist twice.
func (e *endpoint) loseWhileDeleting(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	from, started := e.home, e.beginHeldDeletion(ctx, to)
	started.kill()
	Eventually(started.ended, patiently()...).Should(Receive(HaveOccurred()))
	stage.EndHold(ctx, from.Client)
	var lost infrav1.Metal3MachineList
	Expect(from.Client.List(ctx, &lost, client.InNamespace(lab.Namespace))).To(Succeed())
	Expect(lost.Items).To(BeEmpty(), "clusterctl has deleted no object yet")
	var again error
	Eventually(e.begin(ctx, to).ended, patiently()...).WithContext(ctx).Should(Receive(&again))
	Expect(again).To(MatchError(ContainSubstring("paused")))
	Consistently(func(g Gomega) {
		for _, where := range []*lab.Cluster{from, to} {
			g.Expect(hostsIn(ctx, g, where)).To(And(HaveLen(labHosts), HaveEach(isPausedBy(infrav1.HostPausedByProvider))))
		}
		g.Expect(changes(e.untouched)).To(BeEmpty())
	}, calm, often).Should(Succeed())
}

// clear removes the leftovers in a cluster after its cluster has arrived at home.
func (e *endpoint) clear(ctx context.Context, left *lab.Cluster) {
	GinkgoHelper()
	Expect(plug(ctx, "clean", "--yes", "--kubeconfig="+left.Kubeconfig, "--to-kubeconfig="+e.home.Kubeconfig)).To(ended(0))
	untilCleared(ctx, left)
}

// lose deletes the objects of the cluster as clusterctl does, so that no controller acts on their deletion.
func lose(ctx context.Context, from *lab.Cluster) {
	GinkgoHelper()
	for _, list := range movedKinds() {
		Expect(from.Client.List(ctx, list, client.InNamespace(lab.Namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			object, isObject := item.(client.Object)
			Expect(isObject).To(BeTrue())
			patch := func(metadata string) error {
				return client.IgnoreNotFound(from.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType,
					[]byte(`{"metadata":{`+metadata+`}}`))))
			}
			return errors.Join(
				patch(`"annotations":{"`+infrav1.DeleteForMoveAnnotation+`":""}`),
				client.IgnoreNotFound(from.Client.Delete(ctx, object)),
				patch(`"finalizers":null`))
		})).To(Succeed())
	}
	untilCleared(ctx, from)
}

// untilCleared waits until a cluster has no object of a move.
func untilCleared(ctx context.Context, where *lab.Cluster) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, list := range movedKinds() {
			g.Expect(where.Client.List(ctx, list, client.InNamespace(lab.Namespace))).To(Succeed())
			g.Expect(list).To(HaveField("Items", BeEmpty()), "%T", list)
		}
	}, patiently()...).Should(Succeed())
}

// movedKinds returns an empty list for each kind that is deleted, in the order of clusterctl.
func movedKinds() []client.ObjectList {
	return []client.ObjectList{
		&infrav1.Metal3DataClaimList{}, &infrav1.Metal3DataList{}, &infrav1.Metal3MachineList{}, &clusterv1.MachineList{},
		&clusterv1.MachineSetList{}, &clusterv1.MachineDeploymentList{}, &controlplanev1.KubeadmControlPlaneList{},
		&infrav1.Metal3MachineTemplateList{}, &bmov1alpha1.BareMetalHostList{}, &bmov1alpha1.HardwareDataList{},
		&infrav1.Metal3ClusterList{}, &clusterv1.ClusterList{},
	}
}

// addCompany creates another cluster in the same namespace, and waits until it could be moved.
func (e *endpoint) addCompany(ctx context.Context) {
	GinkgoHelper()
	maker := e.home.Clusterctl()
	maker.Variables = slices.Concat(maker.Variables, []string{
		"CLUSTER_APIENDPOINT_HOST=172.22.0.101", "CLUSTER_APIENDPOINT_VRID=52"})
	manifest, err := maker.Run(ctx, "generate", "cluster", companyName, "--from="+bed.lab.Template(),
		"--target-namespace="+lab.Namespace, "--kubernetes-version="+binaries.KubernetesVersion,
		"--control-plane-machine-count=1", "--worker-machine-count=0")
	Expect(err).NotTo(HaveOccurred())
	_, err = e.home.KubectlWithInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
	e.company = 1
}

// removeCompany deletes the other cluster, if it exists.
func (e *endpoint) removeCompany(ctx context.Context) {
	GinkgoHelper()
	removeCluster(ctx, e, companyName)
	e.company = 0
}

// free returns the names of the hosts without a consumer.
func (e *endpoint) free(ctx context.Context) []string {
	GinkgoHelper()
	var names []string
	for _, host := range e.hosts(ctx, Default) {
		if host.Spec.ConsumerRef == nil {
			names = append(names, host.Name)
		}
	}
	return names
}

// moveThroughFiles saves all objects in files, deletes them from the source, and restores them in the target, which
// takes the cluster over.
func (e *endpoint) moveThroughFiles(ctx context.Context, to *lab.Cluster) {
	GinkgoHelper()
	from, folder := e.home, GinkgoT().TempDir()
	_, err := from.Clusterctl().Run(ctx, "move", "--namespace="+lab.Namespace, "--to-directory="+folder)
	Expect(err).NotTo(HaveOccurred())
	e.untilReadyForMove(ctx, to)
	// No controller must act on the deleted objects.
	e.pause(ctx, ptr.To(true))
	Eventually(func(g Gomega) {
		g.Expect(e.hosts(ctx, g)).To(HaveEach(isPausedBy(infrav1.HostPausedByProvider)))
	}, patiently()...).Should(Succeed())
	lose(ctx, from)
	began := time.Now()
	_, err = to.Clusterctl().Run(ctx, "move", "--from-directory="+folder, "--to-kubeconfig="+to.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	fmt.Printf("clusterctl move from files to %s took %s\n", to.Name, time.Since(began).Round(time.Second))
	e.live(to)
	// The workload cluster still names the cluster that was lost.
	Eventually(func(g Gomega) {
		var infra infrav1.Metal3Cluster
		g.Expect(e.Get(ctx, named(endpointCluster), &infra)).To(Succeed())
		g.Expect(conditions.GetReason(&infra, infrav1.IronicEndpointReadyCondition)).To(Equal(infrav1.ManagedElsewhereReason))
	}, patiently()...).Should(Succeed())
	Expect(plug(ctx, "takeover", "--yes", "--kubeconfig="+to.Kubeconfig)).To(ended(0))
}
