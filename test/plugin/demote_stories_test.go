package plugin_test

import (
	"context"
	"sync/atomic"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const remembered = "infrastructure.cluster.x-k8s.io/replicas-before-demotion"

// moved is a cluster that has arrived in the target, while the management cluster still holds the VIP.
func (c *clusters) moved(ctx context.Context) world {
	GinkgoHelper()
	return settle(ctx, c.target, stage.Namespace(ctx, c.target))
}

// replicas returns the replicas of the Ironic of the management cluster, and the recorded number from before.
func (c *clusters) replicas(ctx context.Context, key client.ObjectKey) (int32, string) {
	GinkgoHelper()
	found := &appsv1.Deployment{}
	Expect(c.source.Client.Get(ctx, key, found)).To(Succeed())
	return ptr.Deref(found.Spec.Replicas, 1), found.Annotations[remembered]
}

func (c *clusters) expectReplicas(ctx context.Context, key client.ObjectKey, count int32, before string) {
	GinkgoHelper()
	now, kept := c.replicas(ctx, key)
	Expect(now).To(Equal(count))
	Expect(kept).To(Equal(before))
}

// demoting is a running demotion.
type demoting struct {
	text *buffer
	code atomic.Int32
	done chan struct{}
	stop context.CancelFunc
}

func startDemotion(ctx context.Context, source, target, namespace, arguments string) *demoting {
	GinkgoHelper()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &demoting{text: &buffer{}, done: make(chan struct{}), stop: stop}
	go func() {
		defer close(d.done)
		d.code.Store(int32(plugin.Main(ctx, commandLine(source, target, namespace, "demote "+arguments),
			plugin.Environment{Output: d.text, Errors: d.text})))
	}()
	DeferCleanup(func() {
		stop()
		Eventually(d.done).Should(BeClosed())
	})
	return d
}

func (d *demoting) ends(code int, words ...string) {
	GinkgoHelper()
	Eventually(d.done).Should(BeClosed())
	Expect(ran{code: int(d.code.Load()), text: d.text.String()}).To(end(code, words...))
}

// describeDemotion has the stories of the end of a pivot.
func describeDemotion(c *clusters) {
	It("scales the Ironic down, waits for the control plane and prints the time; and undoes it", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		Expect(c.run(ctx, w.namespace, "demote --dry-run")).To(end(0, "Would scale Deployment "+key.String()+" from 1 to 0"))
		c.expectReplicas(ctx, key, 1, "")

		d := startDemotion(ctx, c.source.Kubeconfig, c.target.Kubeconfig, w.namespace, "")
		Eventually(func() int32 { count, _ := c.replicas(ctx, key); return count }).Should(BeZero())
		Eventually(d.text.String).Should(ContainSubstring("has 0 replicas now, before 1"))
		c.expectReplicas(ctx, key, 0, "1")
		w.hold(ctx, infrav1.HolderControlPlane, 0)
		Eventually(d.text.String).Should(ContainSubstring("ControlPlane node-0 holds the endpoint after "))
		Consistently(d.done, "1s").ShouldNot(BeClosed(), "the host is not known yet")
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		d.ends(0, "Its Ironic has registered 1 of 1 host after ")

		Expect(c.run(ctx, w.namespace, "demote -o json")).To(end(0, `"replicasBefore": 0`, `"done": true`))
		Expect(c.run(ctx, w.namespace, "demote --undo --dry-run")).To(end(0, "Would scale", "from 0 to 1"))
		c.expectReplicas(ctx, key, 0, "1")
		Expect(c.run(ctx, w.namespace, "demote --undo --yes=false")).To(end(1, "The database of the Ironic that has the VIP is lost"))
		busy := build.Host("busy", build.State(bmov1alpha1.StateProvisioning))
		w.create(ctx, busy)
		Expect(c.run(ctx, w.namespace, "demote --undo")).To(end(1, "host "+w.namespace+"/busy of the target cluster is provisioning"))
		c.expectReplicas(ctx, key, 0, "1")
		w.discard(ctx, busy)
		Expect(c.run(ctx, w.namespace, "demote --undo")).To(end(0, "has 1 replica now, before 0", "it takes the address back"))
		c.expectReplicas(ctx, key, 1, "")
		Expect(c.run(ctx, w.namespace, "demote --undo")).To(end(1, "was not demoted by this command: use kubectl scale"))
	})

	It("refuses while other namespaces of the management cluster depend on its Ironic", func(ctx context.Context) {
		w := c.moved(ctx)
		c.ironicOf(ctx)
		w.arm(ctx)
		stayed := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		stayed.leaveNoHosts()
		stayed.create(ctx, build.Host("apart", build.Available()))
		Expect(c.run(ctx, w.namespace, "demote")).To(end(1, "namespace "+stayed.namespace+
			" of the management cluster has 1 hosts that depend on the Ironic of clusterID "+clusterID))
	})

	It("does not wait for hosts that BMO keeps out of Ironic, and names them", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		claimed := func(name, annotation string) *bmov1alpha1.BareMetalHost {
			return build.Host(name, build.Provisioned(), build.Annotations(map[string]string{annotation: "maintenance"}),
				build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName}))
		}
		w.create(ctx, claimed("paused", bmov1alpha1.PausedAnnotation), claimed("detached", bmov1alpha1.DetachedAnnotation))
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		Expect(c.run(ctx, w.namespace, "demote")).To(end(0, "Its Ironic has registered 1 of 1 host after ",
			"Note: BMO does not register host detached, which is detached: remove its annotation "+
				"baremetalhost.metal3.io/detached.",
			"Note: BMO does not register host paused, which is paused: remove its annotation baremetalhost.metal3.io/paused."))
		c.expectReplicas(ctx, key, 0, "1")
		told := c.run(ctx, w.namespace, "demote -o json")
		Expect(told).To(end(0, `"done": true`, `"hosts": 1`))
		Expect(told.decode()).To(HaveKeyWithValue("notes", HaveLen(2)))
	})

	It("prints whether a restored Ironic takes the VIP after a handover", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		notice := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: handover.Namespace, Name: handover.Name},
			Data:       map[string]string{clusterID: "true"},
		}
		Expect(c.source.Client.Create(ctx, notice)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(c.source.Client.Delete(ctx, notice)).To(Succeed()) })
		stage.Change(ctx, c.source.Client, key, &appsv1.Deployment{}, func(ironic *appsv1.Deployment) {
			ironic.Spec.Replicas, ironic.Annotations = ptr.To(int32(0)), map[string]string{remembered: "2"}
		})
		Expect(c.run(ctx, w.namespace, "demote --undo")).To(end(0, "has 2 replicas now", "it does not take the address"))
	})

	It("refuses while a host is busy, unless it is forced", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateProvisioning)))
		want := []string{"Not done", "node node-0 is not armed", "host " + w.namespace + "/busy is provisioning", "--force"}
		Expect(c.run(ctx, w.namespace, "demote")).To(end(1, want...))
		Expect(c.run(ctx, w.namespace, "demote --dry-run")).To(end(1, want...))
		c.expectReplicas(ctx, key, 1, "")
		told := c.run(ctx, w.namespace, "demote -o json")
		Expect(told).To(end(1))
		Expect(told.decode()).To(HaveKeyWithValue("refusals", HaveLen(2)))

		Expect(c.run(ctx, w.namespace, "demote --force --timeout 30s")).To(end(1,
			"Ignored because of --force: node node-0 is not armed", "Not complete: no node of the control plane holds the endpoint",
			"--undo"))
		c.expectReplicas(ctx, key, 0, "1")
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		Expect(c.run(ctx, w.namespace, "demote")).To(end(0, "has 0 replicas already", "has registered 1 of 1 host"))
		c.expectReplicas(ctx, key, 0, "1")
	})

	It("refuses while a host that did not move is busy, and ignores hosts that moved", func(ctx context.Context) {
		w, _ := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		other := world{client: c.source.Client, namespace: stage.Namespace(ctx, c.source)}
		other.leaveNoHosts()
		other.create(ctx, build.Host("stays", build.State(bmov1alpha1.StateProvisioning)),
			build.Host("moved", build.State(bmov1alpha1.StateProvisioning),
				build.Annotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""})))
		told := c.run(ctx, w.namespace, "demote --dry-run -o json")
		Expect(told).To(end(1))
		Expect(told.decode()).To(HaveKeyWithValue("refusals", ConsistOf(
			And(HaveKeyWithValue("code", "HostBusy"), HaveKeyWithValue("namespace", other.namespace),
				HaveKeyWithValue("name", "stays"),
				HaveKeyWithValue("message", "host "+other.namespace+"/stays of the source cluster is provisioning"),
				HaveKeyWithValue("remedy", "wait until it is done, because the Ironic there may be working on it")),
			And(HaveKeyWithValue("code", "IronicStillNeeded"), HaveKeyWithValue("name", other.namespace)))))
		Expect(c.run(ctx, w.namespace, "demote --dry-run --force")).To(end(0, "Ignored because of --force: host", "Would scale"))

		w.hold(ctx, infrav1.HolderControlPlane, 1)
		Expect(c.run(ctx, w.namespace, "demote --dry-run")).To(end(0, "Would scale"), "nothing is done through the endpoint there")
		w.hold(ctx, infrav1.HolderManagement, 1)
		Expect(c.run(ctx, w.namespace, "demote --dry-run")).To(end(1, "/stays of the source cluster"))
		stage.ChangeStatus(ctx, other.client, other.key("stays"), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.Provisioning.State = bmov1alpha1.StateProvisioned })
		told = c.run(ctx, w.namespace, "demote --dry-run -o json")
		Expect(told.decode()).To(HaveKeyWithValue("refusals", ConsistOf(HaveKeyWithValue("message", HavePrefix("namespace "+other.namespace)))))
		Expect(other.client.Delete(ctx, build.Host("stays", build.InNamespace(other.namespace)))).To(Succeed())
		Expect(c.run(ctx, w.namespace, "demote --dry-run")).To(end(0, "Would scale"))
	})

	It("names a host once when both flags name one cluster", func(ctx context.Context) {
		w, _ := settle(ctx, c.source, stage.Namespace(ctx, c.source)), c.ironicOf(ctx)
		w.arm(ctx)
		w.create(ctx, build.Host("busy", build.State(bmov1alpha1.StateInspecting)))
		want := HaveKeyWithValue("refusals", ConsistOf(HaveKeyWithValue("message", HavePrefix("host "+w.namespace+"/busy is inspecting"))))
		for _, target := range []string{"", c.source.Kubeconfig} {
			Expect(runOn(ctx, c.source.Kubeconfig, target, w.namespace, "demote --dry-run -o json").decode()).To(want)
		}
	})

	It("waits for the cluster whose nodes can take the VIP, of clusters that share an endpoint", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		infra, sharing := &infrav1.Metal3Cluster{}, build.Metal3Cluster("before-"+clusterName)
		Expect(w.client.Get(ctx, w.key(clusterName), infra)).To(Succeed())
		sharing.Spec, sharing.Status = infra.Spec, infra.Status
		sharing.Status.Ironic.Nodes[0].Name = "node-9"
		w.create(ctx, sharing)
		Expect(c.run(ctx, w.namespace, "demote")).To(end(1, "node node-9 is not armed"))
		c.expectReplicas(ctx, key, 1, "")
		w.arm(ctx)
		d := startDemotion(ctx, c.source.Kubeconfig, c.target.Kubeconfig, w.namespace, "")
		Eventually(d.text.String).Should(ContainSubstring("has 0 replicas now"))
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		d.ends(0, "ControlPlane node-0 holds the endpoint", "has registered 1 of 1 host")
	})

	It("refuses for a foreign endpoint, a paused Cluster and a manager that does not run", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		w.changeInfraStatus(ctx, func(infra *infrav1.Metal3Cluster) {
			infra.Status.Conditions[0].Status, infra.Status.Conditions[0].Message = metav1.ConditionFalse, "Conductor x answers"
		})
		stage.Change(ctx, w.client, w.key(clusterName), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
			cluster.Spec.Paused = ptr.To(true)
		})
		available(ctx, c.target, 0)
		DeferCleanup(func(ctx context.Context) { available(ctx, c.target, 1) })
		Expect(c.run(ctx, w.namespace, "demote")).To(end(1, "Ironic endpoint: Conductor x answers",
			"complete the move with pivot resume, or use pivot unpause", "the manager of this provider does not run"))
		c.expectReplicas(ctx, key, 1, "")
	})

	It("refuses for a cluster that the Ironic does not serve, even if forced", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		Expect(runOn(ctx, c.source.Kubeconfig, "", w.namespace, "demote --force")).To(end(1,
			"namespace "+w.namespace+" of --kubeconfig has no Metal3Cluster with spec.ironic", "--to-kubeconfig"))
		stage.Change(ctx, c.source.Client, key, &appsv1.Deployment{}, func(deployment *appsv1.Deployment) {
			deployment.Labels = map[string]string{"ironic.infrastructure.cluster.x-k8s.io/cluster": "another"}
		})
		Expect(c.run(ctx, w.namespace, "demote --force")).To(end(1, `serves clusterID "another"`, `cluster has "c1"`))
		c.expectReplicas(ctx, key, 1, "")
	})

	It("reports that no Ironic is installed", func(ctx context.Context) {
		Expect(c.run(ctx, "metal3", "demote")).To(end(2, "metal3-ironic-system/metal3-ironic", "not found", "--kubeconfig"))
	})

	It("waits through an outage of the target", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		line := stage.NewLine(c.target.Config)
		file, err := c.target.WriteKubeconfig("demote-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		d := startDemotion(ctx, c.source.Kubeconfig, file, w.namespace, "")
		Eventually(d.text.String).Should(ContainSubstring("has 0 replicas now"))
		line.Cut()
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		Consistently(d.done, "1s").ShouldNot(BeClosed())
		Expect(line.Mend()).To(Succeed())
		d.ends(0, "holds the endpoint after", "has registered 1 of 1 host")
		c.expectReplicas(ctx, key, 0, "1")
	})

	It("prints the last obstacle when it is interrupted", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		d := startDemotion(ctx, c.source.Kubeconfig, c.target.Kubeconfig, w.namespace, "")
		Eventually(d.text.String).Should(ContainSubstring("has 0 replicas now"))
		d.stop()
		d.ends(1, "Not complete: ", "scale the Ironic up with --undo")
		c.expectReplicas(ctx, key, 0, "1")
	})

	It("does not change the Ironic without permission, or when the API server does not answer", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		reader := c.reader(ctx)
		Expect(runOn(ctx, reader, c.target.Kubeconfig, w.namespace, "demote")).To(end(2,
			"scaling Deployment metal3-ironic-system/metal3-ironic down", "forbidden", "check that you may patch it"))
		c.expectReplicas(ctx, key, 1, "")
		stage.Change(ctx, c.source.Client, key, &appsv1.Deployment{}, func(ironic *appsv1.Deployment) {
			ironic.Annotations = map[string]string{remembered: "1"}
		})
		Expect(runOn(ctx, reader, c.target.Kubeconfig, w.namespace, "demote --undo")).To(end(2, "up", "may patch it"))

		line := stage.NewLine(c.source.Config)
		file, err := c.source.WriteKubeconfig("source-line", line.Config)
		Expect(err).NotTo(HaveOccurred())
		line.Cut()
		Expect(runOn(ctx, file, c.target.Kubeconfig, w.namespace, "demote")).To(end(2, "reading the source cluster"))
		Expect(runOn(ctx, c.source.Kubeconfig, file, w.namespace, "demote")).To(end(2, "reading the target cluster"))
		c.expectReplicas(ctx, key, 1, "1")
	})

	It("scales down although another client writes the Deployment all the time", func(ctx context.Context) {
		w, key := c.moved(ctx), c.ironicOf(ctx)
		w.arm(ctx)
		w.hold(ctx, infrav1.HolderControlPlane, 1)
		writing, stop := context.WithCancel(context.WithoutCancel(ctx))
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for round := 0; writing.Err() == nil; round++ {
				patch := []byte(`{"metadata":{"labels":{"round":"` + string(rune('a'+round%2)) + `"}}}`)
				_ = c.source.Client.Patch(writing, deployment(key.Namespace, key.Name, nil),
					client.RawPatch("application/merge-patch+json", patch))
			}
		}()
		told := c.run(ctx, w.namespace, "demote")
		stop()
		<-stopped
		// The command scales the Deployment down, or it fails and writes nothing.
		count, before := c.replicas(ctx, key)
		if told.code == 0 {
			Expect(count).To(BeZero())
			Expect(before).To(Equal("1"))
			return
		}
		Expect(told).To(end(2, "scaling Deployment"))
		Expect(count).To(Equal(int32(1)))
		Expect(before).To(BeEmpty())
	})
}

// reader returns the kubeconfig of a user who may read everything in the source, and write nothing.
func (c *clusters) reader(ctx context.Context) string {
	GinkgoHelper()
	Expect(c.source.Client.Create(ctx, viewerRole())).To(Succeed())
	Expect(c.source.Client.Create(ctx, viewerBinding())).To(Succeed())
	return userFile(c.source, "reader")
}

func viewerRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}
}

func viewerBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}
}
