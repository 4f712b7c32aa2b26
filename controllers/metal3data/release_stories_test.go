package metal3data_test

import (
	"context"
	"errors"
	"fmt"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// both is a template with addresses of both APIs. The story of the IPAM contract starts the in-cluster provider.
const both = "metaData: {ipAddressesFromPool: [{key: a, name: pool}, {key: b, name: other, apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool}]}"

func unmarshal(content string, into any) error { return yaml.Unmarshal([]byte(content), into) }

// pools creates the pools of that template.
func (w *world) pools(ctx context.Context) {
	GinkgoHelper()
	w.pool(ctx, "pool", "10.0.0.250")
	w.inClusterPool(ctx, "other", "10.20.0.10-10.20.0.250")
}

// nothingLeft waits until the machine, its data and its addresses do not exist.
func (w *world) nothingLeft(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		for _, list := range []client.ObjectList{
			&infrav1.Metal3DataList{}, &infrav1.Metal3DataClaimList{}, &metal3ipamv1.IPClaimList{}, &ipamv1.IPAddressClaimList{},
			&metal3ipamv1.IPAddressList{}, &ipamv1.IPAddressList{},
		} {
			g.Expect(w.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
			g.Expect(list).To(HaveField("Items", BeEmpty()))
		}
	}).Should(Succeed())
}

func describeReleases(s *suite) {
	begin := func(ctx context.Context) *world {
		GinkgoHelper()
		w := s.world(ctx)
		w.pools(ctx)
		w.template(ctx, "template", both)
		w.machine(ctx, "machine", "template")
		return w
	}
	remove := func(ctx context.Context, w *world, name string, object client.Object) {
		GinkgoHelper()
		object.SetNamespace(w.namespace)
		object.SetName(name)
		Expect(client.IgnoreNotFound(w.client.Delete(ctx, object))).To(Succeed())
	}

	It("releases the addresses with the claim of its machine", func(ctx context.Context) {
		w := begin(ctx)
		w.manager.Start()
		w.ready(ctx, "template-0")
		w.releaseClaim(ctx, "machine")
		w.nothingLeft(ctx)
		w.machine(ctx, "next", "template")
		w.ready(ctx, "template-0")
	})

	It("keeps data that a machine uses, whatever is deleted first", func(ctx context.Context) {
		w := begin(ctx)
		w.manager.Start()
		w.ready(ctx, "template-0")
		remove(ctx, w, "template", &infrav1.Metal3DataTemplate{})
		remove(ctx, w, "template-0", &infrav1.Metal3Data{})
		remove(ctx, w, "machine", &infrav1.Metal3DataClaim{})
		remove(ctx, w, "template-0-pool", &metal3ipamv1.IPClaim{})
		w.eventually(ctx, "template-0", infrav1.DeletingCondition, stage.IsTrue())
		Eventually(func(g Gomega) {
			claim, template := &infrav1.Metal3DataClaim{}, &infrav1.Metal3DataTemplate{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.Conditions).To(stage.HaveCondition(infrav1.DeletingCondition, HaveField("Message",
				"Waiting for Metal3Machine machine to be deleted, which uses the data")))
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Status.Conditions).To(stage.HaveCondition(infrav1.DeletingCondition, HaveField("Message",
				"Waiting for Metal3Data template-0, Metal3DataClaim machine to be deleted. They are deleted with their Metal3Machines. Delete those without a Metal3Machine.")))
		}).Should(Succeed())
		Expect(w.secret(ctx, "machine-metadata", "metaData")).NotTo(BeEmpty())
		stage.Change(ctx, w.client, w.key("machine"), &infrav1.Metal3DataClaim{}, func(claim *infrav1.Metal3DataClaim) {
			claim.Finalizers = []string{infrav1.DataClaimFinalizer}
		})
		w.nothingLeft(ctx)
		w.gone(ctx, "template", &infrav1.Metal3DataTemplate{})
	})

	It("renders data that is deleted before it is rendered, while its machine waits for it", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", both)
		w.machine(ctx, "machine", "template")
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.PoolMissingReason, ""))
		remove(ctx, w, "template-0", &infrav1.Metal3Data{})
		w.pools(ctx)
		w.ready(ctx, "template-0")
		w.releaseClaim(ctx, "machine")
		w.nothingLeft(ctx)
	})

	It("keeps the data of a machine with a claim that was removed by force", func(ctx context.Context) {
		w := begin(ctx)
		w.manager.Start()
		w.ready(ctx, "template-0")
		before := w.data(ctx, Default, "template-0").UID
		w.removeByForce(ctx, "machine", &infrav1.Metal3DataClaim{})
		w.claim(ctx, "machine", "template")
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.RenderedData).To(HaveValue(HaveField("Name", "template-0")))
		}).Should(Succeed())
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsTrue())
		data := w.data(ctx, Default, "template-0")
		Expect(data.UID).To(Equal(before))
		Expect(data.DeletionTimestamp).To(BeNil())
		w.releaseClaim(ctx, "machine")
		w.nothingLeft(ctx)
	})

	It("releases all addresses after the machine and all finalizers were removed by force", func(ctx context.Context) {
		w := begin(ctx)
		w.manager.Start()
		w.ready(ctx, "template-0")
		w.removeByForce(ctx, "template", &infrav1.Metal3DataTemplate{})
		w.removeByForce(ctx, "machine", &infrav1.Metal3DataClaim{})
		w.eventually(ctx, "template-0", infrav1.AddressesReadyCondition, stage.IsFalseBecause(infrav1.WaitingForClaimReason,
			"Waiting for Metal3DataClaim machine to exist."))
		// The garbage collector does not run here.
		remove(ctx, w, "template-0", &infrav1.Metal3Data{})
		w.nothingLeft(ctx)
	})

	It("releases addresses of data that was removed by force while no manager ran", func(ctx context.Context) {
		w := begin(ctx)
		first := w.manager.Start()
		w.ready(ctx, "template-0")
		first.Stop()
		w.removeByForce(ctx, "template", &infrav1.Metal3DataTemplate{})
		w.removeByForce(ctx, "machine", &infrav1.Metal3DataClaim{})
		w.removeByForce(ctx, "template-0", &infrav1.Metal3Data{})
		w.manager.Start()
		// In place of the garbage collector, which does not run here.
		remove(ctx, w, "template-0-pool", &metal3ipamv1.IPClaim{})
		remove(ctx, w, "template-0-other", &ipamv1.IPAddressClaim{})
		w.nothingLeft(ctx)
	})

	It("releases addresses of data that does not exist", func(ctx context.Context) {
		w := begin(ctx)
		first := w.manager.Start()
		w.ready(ctx, "template-0")
		first.Stop()
		// CAPM3 leaves them, and the garbage collector, which does not run here, deletes them.
		leftover := func(name string, edit func(client.Object)) []client.Object {
			GinkgoHelper()
			metal3 := &metal3ipamv1.IPClaim{Spec: metal3ipamv1.IPClaimSpec{Pool: corev1.ObjectReference{Name: "pool"}}}
			contract := &ipamv1.IPAddressClaim{Spec: ipamv1.IPAddressClaimSpec{PoolRef: ipamv1.IPPoolReference{
				APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "other",
			}}}
			for _, claim := range []client.Object{metal3, contract} {
				claim.SetNamespace(w.namespace)
				claim.SetName(name)
				claim.SetLabels(map[string]string{clusterv1.ClusterNameLabel: clusterName})
				claim.SetFinalizers([]string{infrav1.DataFinalizer})
				claim.SetOwnerReferences([]metav1.OwnerReference{{
					APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data", Name: name, UID: types.UID(name),
				}})
				if edit != nil {
					edit(claim)
				}
				w.create(ctx, claim)
				remove(ctx, w, claim.GetName(), claim)
			}
			return []client.Object{metal3, contract}
		}
		swept := leftover("template-7", nil)
		kept := leftover("template-8", func(claim client.Object) {
			claim.SetAnnotations(map[string]string{infrav1.DeleteForMoveAnnotation: ""})
		})
		kept = append(kept, leftover("template-0", func(claim client.Object) { claim.SetName("of-data-that-exists") })...)
		w.manager.Start()
		for _, claim := range swept {
			w.gone(ctx, claim.GetName(), claim)
		}
		Consistently(func(g Gomega) {
			for _, claim := range kept {
				g.Expect(w.client.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
				g.Expect(claim.GetFinalizers()).To(ContainElement(infrav1.DataFinalizer))
			}
		}).Should(Succeed())

		By("deleting one while the manager runs")
		for _, claim := range leftover("template-9", nil) {
			w.gone(ctx, claim.GetName(), claim)
		}
	})

	It("removes the finalizer of a machine that does not exist from its claim", func(ctx context.Context) {
		w := begin(ctx)
		w.manager.Start()
		w.ready(ctx, "template-0")
		remove(ctx, w, "machine", &infrav1.Metal3DataClaim{})
		remove(ctx, w, "machine", &infrav1.Metal3Machine{})
		w.nothingLeft(ctx)
	})

	It("releases a claim that it created a moment before its own deletion", func(ctx context.Context) {
		w := begin(ctx)
		// The response to the creation is lost, and the data is deleted before the next reconcile.
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Verb == "create" && (write.Kind == "IPClaim" || write.Kind == "IPAddressClaim") {
				return stage.Verdict{Err: errors.New("the connection broke"), Lost: true}
			}
			return stage.Verdict{}
		})
		w.manager.Start()
		Eventually(func() error {
			return w.client.Get(ctx, w.key("template-0-pool"), &metal3ipamv1.IPClaim{})
		}).Should(Succeed())
		w.releaseClaim(ctx, "machine")
		w.nothingLeft(ctx)
	})

	It("completes after one failure of each write", func(ctx context.Context) {
		w := begin(ctx)
		failed := map[string]bool{}
		lost := false
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if failed[write.String()] {
				return stage.Verdict{}
			}
			failed[write.String()], lost = true, !lost
			return stage.Verdict{Err: errors.New("the connection broke"), Lost: lost}
		})
		w.manager.Start()
		w.ready(ctx, "template-0")
		w.releaseClaim(ctx, "machine")
		w.nothingLeft(ctx)
		Expect(failed).To(HaveKey("delete IPClaim"))
		Expect(failed).To(HaveKey("patch IPAddressClaim"))
	})
}

// manages makes the manager of a story a user with all permissions in these API groups. It returns a function that
// permits more groups.
func (s *suite) manages(ctx context.Context, w *world, groups ...string) func(more ...string) {
	GinkgoHelper()
	user := metav1.ObjectMeta{Name: w.namespace}
	rules := func(groups []string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: groups, Resources: []string{"*"}, Verbs: []string{"*"}}}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: user, Rules: rules(groups)}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}},
	}
	for _, object := range []client.Object{role, binding} {
		Expect(w.client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(w.client.Delete(ctx, object)).To(Succeed()) })
	}
	var err error
	w.manager.Config, err = s.server.User(user.Name)
	Expect(err).NotTo(HaveOccurred())
	return func(more ...string) {
		GinkgoHelper()
		role.Rules = rules(append(groups, more...))
		Expect(w.client.Update(ctx, role)).To(Succeed())
	}
}

func describeRefusedLists(s *suite) {
	It("reports claims of addresses that it must not list, and renders other data meanwhile", func(ctx context.Context) {
		w := s.world(ctx)
		w.pools(ctx)
		w.template(ctx, "template", pooled)
		permit := s.manages(ctx, w, "", "events.k8s.io", "infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io", "metal3.io", "ipam.metal3.io")
		w.manager.Start()
		for i := range 2 * workers {
			w.machine(ctx, fmt.Sprintf("m-%d", i), "template")
		}
		w.allReady(ctx, 2*workers)
		for i := range 2 * workers {
			w.releaseClaim(ctx, fmt.Sprintf("m-%d", i))
		}
		for i := range 2 * workers {
			w.eventually(ctx, fmt.Sprintf("template-%d", i), infrav1.DeletingCondition, And(stage.IsTrueBecause(infrav1.ClaimsNotListedReason),
				HaveField("Message", ContainSubstring("IPAddressClaims cannot be listed yet. Check that the manager has the permission"))))
		}
		w.machine(ctx, "next", "template")
		w.ready(ctx, fmt.Sprintf("template-%d", 2*workers))
		permit("ipam.cluster.x-k8s.io")
		w.allReady(ctx, 1)
	})
}

func describePauses(s *suite) {
	It("does nothing while the Cluster is paused, and continues afterwards", func(ctx context.Context) {
		w := s.world(ctx)
		w.pools(ctx)
		stage.Change(ctx, w.client, w.key(clusterName), w.cluster, setPaused(true))
		w.template(ctx, "template", both)
		w.machine(ctx, "machine", "template")
		w.manager.Start()
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.Conditions).To(stage.HaveCondition(infrav1.PausedCondition, stage.IsTrue()))
		}).Should(Succeed())
		Expect(client.IgnoreNotFound(w.client.Get(ctx, w.key("template-0"), &infrav1.Metal3Data{}))).To(Succeed())
		stage.Change(ctx, w.client, w.key(clusterName), w.cluster, setPaused(false))
		w.ready(ctx, "template-0")

		stage.Change(ctx, w.client, w.key(clusterName), w.cluster, setPaused(true))
		w.eventually(ctx, "template-0", infrav1.PausedCondition, stage.IsTrue())
		w.releaseClaim(ctx, "machine")
		Expect(w.client.Delete(ctx, &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "template-0"}})).To(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(w.data(ctx, g, "template-0").Finalizers).To(HaveLen(2))
		}).Should(Succeed())
		stage.Change(ctx, w.client, w.key(clusterName), w.cluster, setPaused(false))
		w.nothingLeft(ctx)
	})

	It("does not write objects that clusterctl move deletes", func(ctx context.Context) {
		w := s.world(ctx)
		w.pools(ctx)
		w.template(ctx, "template", both)
		w.machine(ctx, "machine", "template")
		w.manager.Start()
		w.ready(ctx, "template-0")
		stage.Change(ctx, w.client, w.key("template-0"), &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		})
		Expect(w.client.Delete(ctx, &infrav1.Metal3Data{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "template-0"}})).To(Succeed())
		Consistently(func(g Gomega) {
			claim := &metal3ipamv1.IPClaim{}
			g.Expect(w.client.Get(ctx, w.key("template-0-pool"), claim)).To(Succeed())
			g.Expect(claim.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())
	})

	It("rebuilds its status after a move", func(ctx context.Context) {
		w := s.world(ctx)
		w.pools(ctx)
		w.template(ctx, "template", both)
		w.machine(ctx, "machine", "template")
		first := w.manager.Start()
		w.ready(ctx, "template-0")
		before := w.secret(ctx, "machine-metadata", "metaData")
		first.Stop()
		stage.ChangeStatus(ctx, w.client, w.key("template-0"), &infrav1.Metal3Data{}, func(data *infrav1.Metal3Data) {
			data.Status = infrav1.Metal3DataStatus{}
		})
		stage.ChangeStatus(ctx, w.client, w.key("machine"), &infrav1.Metal3DataClaim{}, func(claim *infrav1.Metal3DataClaim) {
			claim.Status = infrav1.Metal3DataClaimStatus{}
		})
		w.manager.Start()
		w.ready(ctx, "template-0")
		Eventually(func(g Gomega) {
			claim := &infrav1.Metal3DataClaim{}
			g.Expect(w.client.Get(ctx, w.key("machine"), claim)).To(Succeed())
			g.Expect(claim.Status.RenderedData).To(HaveValue(HaveField("Name", "template-0")))
		}).Should(Succeed())
		Expect(w.secret(ctx, "machine-metadata", "metaData")).To(Equal(before))
	})
}

func setPaused(paused bool) func(*clusterv1.Cluster) {
	return func(cluster *clusterv1.Cluster) { cluster.Spec.Paused = &paused }
}
