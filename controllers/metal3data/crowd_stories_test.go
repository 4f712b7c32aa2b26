package metal3data_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// crowd is the number of claims that the story creates at once.
const crowd = 100

// orphan creates a claim of a machine that does not exist. It gets an index.
func (w *world) orphan(ctx context.Context, name, template string) {
	GinkgoHelper()
	w.orphanIn(ctx, clusterName, name, template)
}

func (w *world) orphanIn(ctx context.Context, cluster, name, template string) {
	GinkgoHelper()
	w.create(ctx, &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			Finalizers: []string{infrav1.DataClaimFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine", Name: name, UID: types.UID(name),
			}},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{Name: template}},
	})
}

// indexes waits until each claim has one Metal3Data and returns the indexes.
func (w *world) indexes(ctx context.Context, g Gomega) map[int32]string {
	var claims infrav1.Metal3DataClaimList
	var data infrav1.Metal3DataList
	g.Expect(w.client.List(ctx, &claims, client.InNamespace(w.namespace))).To(Succeed())
	g.Expect(w.client.List(ctx, &data, client.InNamespace(w.namespace))).To(Succeed())
	recorded := map[string]string{}
	for _, claim := range claims.Items {
		g.Expect(claim.Status.RenderedData).NotTo(BeNil(), claim.Name)
		recorded[claim.Name] = claim.Status.RenderedData.Name
	}
	g.Expect(data.Items).To(HaveLen(len(claims.Items)))
	indexes := map[int32]string{}
	for _, one := range data.Items {
		g.Expect(recorded).To(HaveKeyWithValue(one.Spec.Claim.Name, one.Name))
		indexes[*one.Spec.Index] = one.Spec.Claim.Name
	}
	g.Expect(indexes).To(HaveLen(len(claims.Items)))
	return indexes
}

func describeCrowds(s *suite) {
	It("allocates the lowest indexes to many claims at once, and fills gaps", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.manager.Start()
		for i := range crowd {
			w.orphan(ctx, fmt.Sprintf("m-%d", i), "template")
		}
		var indexes map[int32]string
		Eventually(func(g Gomega) { indexes = w.indexes(ctx, g) }).Should(Succeed())
		for i := range int32(crowd) {
			Expect(indexes).To(HaveKey(i))
		}
		for _, index := range []int32{7, 3, 50} {
			claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: indexes[index]}}
			Expect(w.client.Delete(ctx, claim)).To(Succeed())
			w.gone(ctx, fmt.Sprintf("template-%d", index), &infrav1.Metal3Data{})
		}
		Eventually(func(g Gomega) {
			template := &infrav1.Metal3DataTemplate{}
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Status.Indexes).To(HaveLen(crowd - 3))
		}).Should(Succeed())
		for i, want := range []int32{3, 7, 50, crowd} {
			name := fmt.Sprintf("late-%d", i)
			w.orphan(ctx, name, "template")
			Eventually(func(g Gomega) { g.Expect(w.indexes(ctx, g)).To(HaveKeyWithValue(want, name)) }).Should(Succeed())
		}
	})

	It("allocates the lowest index beside a Metal3Data with the largest one", func(ctx context.Context) {
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.create(ctx, &infrav1.Metal3Data{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "template-2147483647"},
			Spec: infrav1.Metal3DataSpec{
				Template: &infrav1.Metal3ObjectRef{Name: "template"}, Index: ptr.To[int32](math.MaxInt32),
			},
		})
		w.manager.Start()
		for i, name := range []string{"first", "second"} {
			w.orphan(ctx, name, "template")
			Eventually(func(g Gomega) {
				g.Expect(w.data(ctx, g, fmt.Sprintf("template-%d", i)).Spec.Claim).To(HaveValue(HaveField("Name", name)))
			}).Should(Succeed())
		}
	})

	It("allocates one index to each claim, despite two managers, lost responses and a crash", func(ctx context.Context) {
		chosen := seed.Chosen()
		By(fmt.Sprintf("seed %d", chosen))
		random := rand.New(rand.NewPCG(chosen, 0))
		w := s.world(ctx)
		w.template(ctx, "template", plain)
		w.writes.Judge(func(stage.Write) stage.Verdict {
			switch random.IntN(8) {
			case 0:
				return stage.Verdict{Err: errors.New("the connection broke")}
			case 1:
				return stage.Verdict{Err: errors.New("the connection broke"), Lost: true}
			default:
				return stage.Verdict{}
			}
		})
		first := w.manager.Start()
		w.manager.Start()
		for i := range crowd {
			w.orphan(ctx, fmt.Sprintf("m-%d", i), "template")
			if i == crowd/2 {
				first.Stop()
				first = w.manager.Start()
			}
		}
		w.writes.Judge(nil)
		Eventually(func(g Gomega) { w.indexes(ctx, g) }).Should(Succeed())
	})

	It("waits for its template, which serves claims until it is deleted", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.orphan(ctx, "early", "template")
		w.reports(ctx, "early", infrav1.TemplateMissingReason, "Metal3DataTemplate template does not exist. Create it, or name another one in a new Metal3MachineTemplate.")
		template := w.template(ctx, "template", plain)
		Eventually(func(g Gomega) { w.indexes(ctx, g) }).Should(Succeed())
		w.orphan(ctx, "next", "template")
		Eventually(func(g Gomega) { w.indexes(ctx, g) }).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
			g.Expect(template.Finalizers).NotTo(BeEmpty())
		}).Should(Succeed())
		Expect(w.client.Delete(ctx, template)).To(Succeed())
		used := func(by ...string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				g.Expect(w.client.Get(ctx, w.key("template"), template)).To(Succeed())
				g.Expect(template.Status.Conditions).To(stage.HaveCondition(infrav1.DeletingCondition, And(
					HaveField("Reason", infrav1.TemplateInUseReason), HaveField("Message",
						"Waiting for "+strings.Join(by, ", ")+" to be deleted. They are deleted with their Metal3Machines. Delete those without a Metal3Machine."))))
			}).Should(Succeed())
		}
		used("Metal3Data template-0", "Metal3Data template-1", "Metal3DataClaim early", "Metal3DataClaim next")
		w.orphan(ctx, "late", "template")
		Eventually(func(g Gomega) { g.Expect(w.indexes(ctx, g)).To(HaveKeyWithValue(int32(2), "late")) }).Should(Succeed())
		used("Metal3Data template-0", "Metal3Data template-1", "Metal3Data template-2", "Metal3DataClaim early", "Metal3DataClaim late and 1 more")
		remove := func(claim string) {
			GinkgoHelper()
			Expect(w.client.Delete(ctx, &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: claim}})).To(Succeed())
		}
		remove("early")
		remove("next")
		used("Metal3Data template-2", "Metal3DataClaim late")
		remove("late")
		w.gone(ctx, "template", template)
		w.emitted(ctx, "Metal3DataTemplate", "template", "Warning TemplateInUse")
	})

	It("allocates an index again after its template and its Metal3Data were removed by force", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", plain)
		w.orphan(ctx, "claim", "template")
		Eventually(func(g Gomega) { w.indexes(ctx, g) }).Should(Succeed())
		w.removeByForce(ctx, "template", &infrav1.Metal3DataTemplate{})
		w.removeByForce(ctx, "template-0", &infrav1.Metal3Data{})
		w.reports(ctx, "claim", infrav1.TemplateMissingReason, "Metal3DataTemplate template does not exist. Create it")
		w.template(ctx, "template", plain)
		Eventually(func(g Gomega) { g.Expect(w.indexes(ctx, g)).To(HaveKeyWithValue(int32(0), "claim")) }).Should(Succeed())
	})

	It("reports that a policy rejects its Metal3Data, and continues without the policy", func(ctx context.Context) {
		w := s.world(ctx)
		var rejected atomic.Int32
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Kind != "Metal3Data" {
				return stage.Verdict{}
			}
			rejected.Add(1)
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "metal3datas"}, write.Name,
				errors.New("denied by a policy"))}
		})
		w.manager.Start()
		w.template(ctx, "template", plain)
		w.orphan(ctx, "claim", "template")
		w.reports(ctx, "claim", infrav1.AllocationFailedReason, "denied by a policy")
		Eventually(rejected.Load).Should(BeNumerically(">", 3))
		w.emitted(ctx, "Metal3DataClaim", "claim", "Warning IndexAllocationFailed")
		w.writes.Judge(nil)
		Eventually(func(g Gomega) { g.Expect(w.indexes(ctx, g)).To(HaveLen(1)) }).Should(Succeed())
	})

	It("reports a claim without a machine, or without a template", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.template(ctx, "template", plain)
		for name, tc := range map[string]struct {
			template *infrav1.Metal3ObjectRef
			want     string
		}{
			"stray": {&infrav1.Metal3ObjectRef{Name: "template"}, "metadata.ownerReferences names no Metal3Machine."},
			"empty": {nil, "spec.template.name is empty."},
		} {
			claim := &infrav1.Metal3DataClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
			claim.Spec.Template = tc.template
			w.create(ctx, claim)
			Eventually(func(g Gomega) {
				g.Expect(w.client.Get(ctx, w.key(name), claim)).To(Succeed())
				g.Expect(claim.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition,
					stage.IsFalseBecause(infrav1.InvalidClaimReason, tc.want)))
			}).Should(Succeed())
		}
	})
}

// pause pauses a Cluster, or ends its pause.
func (w *world) pause(ctx context.Context, cluster string, paused bool) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key(cluster), &clusterv1.Cluster{}, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = &paused
	})
}

// reports waits until a claim reports why it has no Metal3Data.
func (w *world) reports(ctx context.Context, name, reason, message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		claim := &infrav1.Metal3DataClaim{}
		g.Expect(w.client.Get(ctx, w.key(name), claim)).To(Succeed())
		g.Expect(claim.Status.Conditions).To(stage.HaveCondition(infrav1.ReadyCondition, stage.IsFalseBecause(reason, message)))
		g.Expect(claim.Status.ErrorMessage).To(ContainSubstring(message))
	}).Should(Succeed())
}
