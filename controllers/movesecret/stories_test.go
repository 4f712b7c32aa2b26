package movesecret_test

import (
	"context"
	"errors"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeLabels are the stories about labelled Secrets.
func describeLabels(s *suite) {
	It("moves if a host references it", func(ctx context.Context) {
		w := s.world(ctx)
		names := []string{"host-bmc", "ramdisk", "user", "meta", "network", "registry"}
		w.secrets(ctx, append(names, "unnamed")...)
		w.manager.Start()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.PreprovisioningNetworkDataName = "ramdisk"
			host.Spec.UserData, host.Spec.MetaData = w.reference("user"), w.reference("meta")
			host.Spec.NetworkData = w.reference("network")
			host.Spec.Image = &bmov1alpha1.Image{URL: "oci://registry.example/os", OCIAuthSecretName: ptr.To("registry")}
		})
		w.eventuallyMove(ctx, names...)
		Expect(w.moves(ctx, Default, "unnamed")).To(BeFalse())
		Expect(w.writes.Done()).To(HaveLen(len(names)), "one write for each")
		secret := &corev1.Secret{}
		Expect(w.client.Get(ctx, w.key("user"), secret)).To(Succeed())
		Expect(secret.Data).To(Equal(map[string][]byte{"value": []byte("of user")}), "the data stays")
	})

	It("moves if a machine or a template references it", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "of-machine", "of-template")
		w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace),
			stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.MetaData = w.reference("of-machine") })))
		w.create(ctx, build.MachineTemplate("template", build.InNamespace(w.namespace),
			stage.With(func(template *infrav1.Metal3MachineTemplate) {
				template.Spec.Template.Spec.NetworkData = w.reference("of-template")
			})))
		w.manager.Start()
		w.eventuallyMove(ctx, "of-machine", "of-template")
	})

	It("moves with its owner", func(ctx context.Context) {
		w := s.world(ctx)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
		w.create(ctx, owner)
		w.secret(ctx, "host-bmc", build.OwnedBy(owner))
		w.secret(ctx, "user", build.Labels(map[string]string{infrav1.MoveLabel: "by-hand"}))
		w.secrets(ctx, "network")
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.UserData, host.Spec.NetworkData = w.reference("user"), w.reference("network")
		})
		w.manager.Start()
		w.eventuallyMove(ctx, "network")
		Consistently(w.writes.Done).Should(ConsistOf(stage.Write{Verb: "patch", Kind: "Secret", Name: "network"}))
		Expect(w.moves(ctx, Default, "host-bmc")).To(BeFalse())
	})

	It("is not labelled if another client sets an owner first", func(ctx context.Context) {
		w := s.world(ctx)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
		w.create(ctx, owner)
		w.secrets(ctx, "host-bmc", "user")
		overtaken := false
		w.writes.Judge(func(write stage.Write) stage.Verdict {
			if write.Name == "host-bmc" && !overtaken {
				overtaken = true
				stage.Change(ctx, w.client, w.key(write.Name), &corev1.Secret{},
					func(secret *corev1.Secret) { build.OwnedBy(owner)(secret) })
			}
			return stage.Verdict{}
		})
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) { host.Spec.UserData = w.reference("user") })
		w.manager.Start()
		w.eventuallyMove(ctx, "user")
		Expect(overtaken).To(BeTrue())
		Expect(w.moves(ctx, Default, "host-bmc")).To(BeFalse())
	})

	It("is not labelled for an object that a move deletes", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "moving-bmc", "leaving-bmc", "staying-bmc")
		w.host(ctx, "moving", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
		})
		w.host(ctx, "leaving", func(host *bmov1alpha1.BareMetalHost) {
			host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
		})
		Expect(w.client.Delete(ctx, build.Host("leaving", build.InNamespace(w.namespace)))).To(Succeed())
		w.manager.Start()
		w.host(ctx, "staying", func(*bmov1alpha1.BareMetalHost) {})
		w.eventuallyMove(ctx, "staying-bmc")
		Consistently(w.writes.Done).Should(ConsistOf(stage.Write{Verb: "patch", Kind: "Secret", Name: "staying-bmc"}))
	})

	It("is not labelled for machines of another manager", func(ctx context.Context) {
		w := s.world(ctx)
		w.watchFilter = "mine"
		w.secrets(ctx, "theirs", "mine")
		for _, name := range []string{"theirs", "mine"} {
			w.create(ctx, build.Metal3Machine(name, "cluster", build.InNamespace(w.namespace),
				build.Labels(map[string]string{clusterv1.WatchLabel: name}),
				stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.UserData = w.reference(name) })))
		}
		w.manager.Start()
		w.eventuallyMove(ctx, "mine")
		Consistently(func(g Gomega) { g.Expect(w.moves(ctx, g, "theirs")).To(BeFalse()) }).Should(Succeed())
	})
}

// describeRefusals are the stories about Secrets that the API server refuses to label.
func describeRefusals(s *suite) {
	refusing := func(names ...string) func(stage.Write) stage.Verdict {
		return func(write stage.Write) stage.Verdict {
			if !slices.Contains(names, write.Name) {
				return stage.Verdict{}
			}
			return stage.Verdict{Err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, write.Name,
				errors.New("a policy says no"))}
		}
	}

	It("does not keep others from their label if a policy refuses its own, and the host says so", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "host-bmc", "user", "network")
		w.writes.Judge(refusing("host-bmc", "user"))
		w.manager.Start()
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.UserData, host.Spec.NetworkData = w.reference("user"), w.reference("network")
		})
		w.eventuallyMove(ctx, "network")
		saysNo := And(ContainSubstring("clusterctl move leaves it behind"), ContainSubstring("a policy says no"))
		Eventually(func(g Gomega) {
			g.Expect(w.warnings(ctx, g)).To(And(HaveLen(2), HaveKeyWithValue("BareMetalHost host, host-bmc", saysNo),
				HaveKeyWithValue("BareMetalHost host, user", saysNo)))
			g.Expect(w.looks(g)).To(HaveKeyWithValue("host-bmc", BeNumerically(">", 3)), "it is tried again")
		}).Should(Succeed())
		stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = true })
		before := w.looks(Default)["host-bmc"]
		Eventually(func(g Gomega) {
			g.Expect(w.looks(g)).To(HaveKeyWithValue("host-bmc", BeNumerically(">", before+2)))
		}).Should(Succeed())
		Expect(w.warnings(ctx, Default)).To(HaveLen(2), "one for each Secret")
		w.writes.Judge(nil)
		w.eventuallyMove(ctx, "host-bmc", "user")
	})

	It("is reported on the machine or the template that references it", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "of-machine", "of-template")
		w.writes.Judge(refusing("of-machine", "of-template"))
		w.create(ctx, build.Metal3Machine("machine", "cluster", build.InNamespace(w.namespace),
			stage.With(func(machine *infrav1.Metal3Machine) { machine.Spec.MetaData = w.reference("of-machine") })))
		w.create(ctx, build.MachineTemplate("template", build.InNamespace(w.namespace),
			stage.With(func(template *infrav1.Metal3MachineTemplate) {
				template.Spec.Template.Spec.NetworkData = w.reference("of-template")
			})))
		w.manager.Start()
		Eventually(func(g Gomega) {
			g.Expect(w.warnings(ctx, g)).To(And(HaveKey("Metal3Machine machine, of-machine"),
				HaveKey("Metal3MachineTemplate template, of-template")))
		}).Should(Succeed())
	})
}

// describeCost are the stories about the number of reads of Secrets.
func describeCost(s *suite) {
	It("is read once unless the object references another Secret", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "host-bmc", "user")
		w.manager.Start()
		w.host(ctx, "host", func(*bmov1alpha1.BareMetalHost) {})
		w.eventuallyMove(ctx, "host-bmc")
		stage.ChangeStatus(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{},
			func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = true })
		w.change(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Labels = map[string]string{"a": "b"} })
		w.change(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.UserData = w.reference("user") })
		w.eventuallyMove(ctx, "user")
		Consistently(func(g Gomega) {
			g.Expect(w.looks(g)).To(Equal(map[string]int{"host-bmc": 1, "user": 1}))
		}).Should(Succeed())
	})

	It("is not read live if the cache shows its owner", func(ctx context.Context) {
		w := s.world(ctx)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
		w.create(ctx, owner)
		ofCluster := build.Labels(map[string]string{clusterv1.ClusterNameLabel: "cluster"})
		w.secret(ctx, "owned", ofCluster, build.OwnedBy(owner))
		w.secret(ctx, "unowned", ofCluster)
		w.host(ctx, "host", func(host *bmov1alpha1.BareMetalHost) {
			host.Spec.UserData, host.Spec.MetaData = w.reference("owned"), w.reference("unowned")
		})
		w.manager.Start()
		w.eventuallyMove(ctx, "unowned")
		Expect(w.moves(ctx, Default, "owned")).To(BeFalse())
		Expect(w.looks(Default)).To(Equal(map[string]int{"host-bmc": 1, "unowned": 1}))
	})

	It("is read again if it did not exist", func(ctx context.Context) {
		w := s.world(ctx)
		w.manager.Start()
		w.host(ctx, "host", func(*bmov1alpha1.BareMetalHost) {})
		Eventually(func(g Gomega) { g.Expect(w.looks(g)).To(HaveKeyWithValue("host-bmc", 1)) }).Should(Succeed())
		w.secrets(ctx, "host-bmc")
		w.change(ctx, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Online = true })
		w.eventuallyMove(ctx, "host-bmc")
	})

	It("is read again after a failed write", func(ctx context.Context) {
		w := s.world(ctx)
		w.secrets(ctx, "host-bmc")
		refused := false
		w.writes.Judge(func(stage.Write) stage.Verdict {
			if refused {
				return stage.Verdict{}
			}
			refused = true
			return stage.Verdict{Err: errors.New("refused once")}
		})
		w.manager.Start()
		w.host(ctx, "host", func(*bmov1alpha1.BareMetalHost) {})
		w.eventuallyMove(ctx, "host-bmc")
		Expect(refused).To(BeTrue())
	})
}

func (w *world) host(ctx context.Context, name string, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	w.create(ctx, build.Host(name, build.InNamespace(w.namespace), stage.With(edit)))
}

func (w *world) change(ctx context.Context, edit func(*bmov1alpha1.BareMetalHost)) {
	GinkgoHelper()
	stage.Change(ctx, w.client, w.key("host"), &bmov1alpha1.BareMetalHost{}, edit)
}
